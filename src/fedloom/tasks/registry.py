"""Tasks: data, model and loss under one name, with local work that is known to train.

``task("digits", clients=50, partition=dirichlet(0.1))`` is a named task; any federation and any ``torch.nn.Module``
make another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.task import CrossEntropy, Objective, Task
from fedloom.core.validation import validated
from fedloom.data.communal_set import with_communal
from fedloom.data.concept_drift import Drift, drifting
from fedloom.data.datasets.registry import DATASETS, dataset, load
from fedloom.data.federation import Federation
from fedloom.data.input_statistics import input_statistics
from fedloom.data.partition.partitioners import Partitioner
from fedloom.data.partition.registry import dirichlet, partition_config, partitioner
from fedloom.data.withheld_class import Withhold, withholding
from fedloom.models import build, default_for


@dataclass(frozen=True)
class Normalise:
    """Bytes become numbers in [0, 1], then each channel gets mean 0 and standard deviation 1."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Normalised floats."""
        shape = (1, -1, *[1] * (x.dim() - 2))
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        return (x.float() - torch.tensor(self.mean).view(shape) * scale) / (torch.tensor(self.std).view(shape) * scale)


def tokens(x: Tensor) -> Tensor:
    """Symbols or words, held in few bytes, as the indices that an embedding takes."""
    return x.long()


@dataclass(frozen=True)
class CropFlip:
    """The usual augmentation of small photographs: shift by up to ``pad`` pixels, mirror every second image."""

    pad: int = 4

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Each image shifted and perhaps mirrored."""
        count, _, height, width = x.shape
        shift = torch.randint(0, 2 * self.pad + 1, (2, count, 1), generator=generator)
        mirrored = torch.rand(count, generator=generator) < 0.5
        columns = torch.arange(width).expand(count, -1)
        columns = torch.where(mirrored[:, None], columns.flip(1), columns) + shift[0]
        rows = torch.arange(height).expand(count, -1) + shift[1]
        padded = F.pad(x, (self.pad,) * 4)
        picked = torch.arange(count)[:, None, None]
        return padded.permute(0, 2, 3, 1)[picked, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


@dataclass(frozen=True)
class TaskKind:
    """A named task: its data set, its model if not the data's default, and local work that trains it.

    A task whose samples are not entries of a column but flows or nodes of graphs has no data set of that kind: the
    function that ``built_by`` names (``module:function``) makes it, and ``about`` says what it is.
    """

    data: str
    local: LocalWork
    model: str | None = None
    built_by: str | None = None
    about: str = ""


FLOWS = LocalWork(lr=0.05, batch_size=128)
NODES = LocalWork(optimizer="adam", lr=0.01, weight_decay=5e-4, batch_size=0, epochs=3)


def _flows(about: str) -> TaskKind:
    return TaskKind("flows", FLOWS, "fullgn", "fedloom.tasks.flows.learning.task:build", about)


def _nodes(about: str) -> TaskKind:
    return TaskKind("graph", NODES, "gcn", "fedloom.tasks.graphs.task:build", about)


TASKS: dict[str, TaskKind] = {
    "digits": TaskKind("digits", LocalWork(lr=0.1, batch_size=32)),
    "mnist": TaskKind("mnist", LocalWork(lr=0.05, batch_size=32)),
    "mnist-writers": TaskKind("mnist-writers", LocalWork(lr=0.05, batch_size=20)),
    "fashion-mnist": TaskKind("fashion-mnist", LocalWork(lr=0.05, batch_size=32)),
    "cifar10": TaskKind("cifar10", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4)),
    "cifar10-cnn": TaskKind("cifar10", LocalWork(lr=0.01, batch_size=64), model="cnn"),
    "cifar100": TaskKind("cifar100", LocalWork(lr=0.01, batch_size=64, weight_decay=4e-4)),
    "gtsrb": TaskKind("gtsrb", LocalWork(lr=0.02, batch_size=32)),
    "har": TaskKind("har", LocalWork(lr=0.02, batch_size=32)),
    "shakespeare": TaskKind("shakespeare", LocalWork(lr=1.0, batch_size=100, weight_decay=1e-4)),
    "stackexchange": TaskKind("stackexchange", LocalWork(lr=0.316, batch_size=16)),
    "flows": _flows("the next action's kind in synthetic action flows of organisations"),
    "flows-subkind": _flows("the same flows, the next action's subkind"),
    "n8n": _flows("the next node in real n8n workflows, by owner"),
    "bpmn": _flows("the next node in real BPMN models, by modelling exercise"),
    "own-flows": _flows("the next node in flows of your own: a folder per organisation"),
    "cora": _nodes("2,708 papers in a citation graph that clients share, 7 classes"),
    "citeseer": _nodes("3,327 papers in a citation graph that clients share, 6 classes"),
    "pubmed": _nodes("19,717 papers in a citation graph that clients share, 3 classes"),
    "twitch": _nodes("streamers in seven countries, a graph each, 2 classes"),
    "own-graph": _nodes("nodes of a graph of your own, dealt to clients by community"),
}


def canonical_task(name: str) -> str:
    """A task's name as this project writes it."""
    return name.strip().lower().replace("_", "-")


def task_kind(name: str) -> TaskKind:
    """The named task, in any case."""
    if canonical_task(name) not in TASKS:
        raise unknown("task", name, [*TASKS, "own"])
    return TASKS[canonical_task(name)]


def default_model(kind: TaskKind) -> str:
    """The model that a named task has when nobody names one."""
    if kind.built_by is not None:
        return str(kind.model)
    entry = dataset(kind.data)
    return kind.model or default_for(entry.shape, entry.classes, entry.kind)


def task(
    name: str,
    *,
    clients: int | None = None,
    partition: Partitioner | str | Mapping[str, Any] | None = None,
    alpha: float | None = None,
    model: str | nn.Module | None = None,
    model_options: Mapping[str, Any] | None = None,
    test_share: float = 0.2,
    valid_share: float = 0.0,
    communal_per_class: int = 0,
    augment: bool = False,
    withhold: Withhold | Mapping[str, Any] | None = None,
    drift: Drift | Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    path: str | None = None,
    seed: int = 0,
) -> Task:
    """A named task. ``alpha`` is short for ``partition=dirichlet(alpha)``; ``model`` is a name or any module.

    ``withhold={"label": 3, "clients": 2}`` takes a class out of some clients' training data; ``drift={"rounds": [10]}``
    lets clients' data change hands in round 10; ``communal_per_class=10`` sets ten test samples of each class aside
    that everyone may see. ``options`` are settings of the task's own, ``path`` the data of a task that reads yours.
    """
    name = canonical_task(name)
    kind = task_kind(name)
    if alpha is not None:
        if partition is not None:
            raise FedloomError(f"alpha={alpha} and partition={partition} both say how to divide the data: give one.")
        partition = dirichlet(alpha)
    if kind.built_by is not None:
        unused = {"partition": partition is not None, "communal_per_class": communal_per_class, "augment": augment}
        for setting in (setting for setting, given in unused.items() if given):
            raise FedloomError(f"task {name} has its own way to divide its data, and no {setting}: leave it out.")
        return _built(
            name,
            kind.built_by,
            clients=clients,
            options=options or {},
            model=model,
            model_options=model_options or {},
            test_share=test_share,
            valid_share=valid_share,
            withhold=withhold,
            drift=drift,
            seed=seed,
            path=path,
        )
    if options or path:
        raise FedloomError(f"task {name} has no options and reads no file of yours: leave out options and path.")
    entry = dataset(kind.data)
    federation = load(
        kind.data, clients=clients, partition=partition, seed=seed, test_share=test_share, valid_share=valid_share
    )
    federation = with_communal(federation, communal_per_class, seed)
    federation, altered = alter(federation, withhold, drift, seed)
    model = default_model(kind) if model is None else model
    made_from: dict[str, Any] = {}
    if isinstance(model, str):
        divide = partitioner(partition) if partition is not None else entry.partition
        made_from = {"name": name, "clients": federation.clients, "partition": partition_config(divide), "model": model}
        made_from |= {"model_options": dict(model_options or {}), "test_share": test_share, "valid_share": valid_share}
        made_from |= {"communal_per_class": communal_per_class, "augment": augment, "seed": seed, **altered}
        model = build(model, entry.shape, entry.classes, seed, **(model_options or {}))
    if augment and entry.kind != "image":
        raise FedloomError(f"augment=true shifts and mirrors images, and {name} has none: leave it off.")
    return Task(
        name=name,
        federation=federation,
        model=model,
        prepare=Normalise(entry.mean, entry.std) if entry.mean else tokens,
        augment=CropFlip() if augment else None,
        made_from=made_from,
    )


def _built(name: str, built_by: str, **settings: Any) -> Task:
    """A task from the function that makes it, imported when it is needed."""
    module, _, function = built_by.partition(":")
    made: Task = getattr(import_module(module), function)(name, **settings)
    return made


def alter(
    federation: Federation,
    withhold: Withhold | Mapping[str, Any] | None,
    drift: Drift | Mapping[str, Any] | None,
    seed: int,
) -> tuple[Federation, dict[str, Any]]:
    """A federation with a class withheld and with drift, where they are asked for; and the settings of both."""
    settings: dict[str, Any] = {}
    if withhold is not None:
        settings["withhold"] = asdict(validated(Withhold, withhold, "withhold"))
        federation = withholding(federation, seed=seed, **settings["withhold"])
    if drift is not None:
        settings["drift"] = asdict(validated(Drift, drift, "drift"))
        federation = drifting(federation, seed=seed, **settings["drift"])
    return federation, settings


def task_of(
    federation: Federation,
    model: nn.Module | str = "mlp",
    *,
    name: str = "own",
    objective: Objective | None = None,
    seed: int = 0,
    model_options: Mapping[str, Any] | None = None,
    normalise: bool = True,
) -> Task:
    """A task from a federation of one's own and a model: a name of ``fedloom list models`` or any module.

    Float and image inputs are normalised by the training data's mean and spread, unless ``normalise`` is off.
    """
    x = federation.columns["x"]
    if isinstance(model, str):
        model = build(model, tuple(x.shape[1:]), federation.classes, seed, **(model_options or {}))
    prepare = None
    if normalise and (x.is_floating_point() or x.dtype == torch.uint8):
        mean, std = input_statistics(federation)
        prepare = Normalise(tuple(mean.tolist()), tuple(std.tolist()))
    return Task(name, federation, model, objective=objective or CrossEntropy(), prepare=prepare)


def describe(name: str) -> str:
    """One line about a named task."""
    if TASKS[name].built_by is not None:
        return f"{TASKS[name].about}; model {TASKS[name].model}"
    entry = DATASETS[TASKS[name].data]
    where = "" if entry.present() else " (data missing: fedloom data get)"
    return f"{entry.description}; model {default_model(TASKS[name])}{where}"
