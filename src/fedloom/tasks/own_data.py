"""Tasks from a user's own data: ``task_of(federation, model)`` in Python, and the task ``own`` for a file or folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import PREFIX, input_names, input_shapes
from fedloom.core.local_work import LocalWork
from fedloom.core.objective import Objective
from fedloom.core.targets import target_kind
from fedloom.core.task import Task
from fedloom.data.changes.class_stream import ClassStream
from fedloom.data.federation import Federation
from fedloom.data.from_arrays import from_arrays
from fedloom.data.input_plan import InputPlan
from fedloom.data.input_statistics import input_statistics
from fedloom.data.media.media_settings import Images, Sounds
from fedloom.data.media.medium import medium_of
from fedloom.data.partition.partitioner import complete_partition, partitioner
from fedloom.data.public_arrays import IN_MEMORY
from fedloom.data.read import read
from fedloom.data.sequences.sequence_plan import SEQUENCE_MODEL, has_lengths
from fedloom.data.sequences.sequence_settings import Sequences
from fedloom.data.tables.column_plan import TEXT_MODEL
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.text_column import text_settings
from fedloom.data.targets import target_units
from fedloom.losses.make_objective import LossSpec, complete_loss, make_objective
from fedloom.metrics.make_metrics import MetricSpecs, complete_metrics, with_metrics
from fedloom.models import Maker, build
from fedloom.registry.spec import split_spec
from fedloom.registry.validation import validate
from fedloom.tasks.architectures import ModelTable, build_architectures, complete_models
from fedloom.tasks.builder import TaskDeployment, TaskSettings
from fedloom.tasks.data_settings import read_sets, with_data_settings
from fedloom.tasks.deployment import ColumnDeployment
from fedloom.tasks.input_columns import TAGGER, fit_inputs, with_vocabulary
from fedloom.tasks.settings import AdapterSpec, column_names
from fedloom.tasks.trained_parts import read_adapters, with_trained_parts
from fedloom.tasks.transforms import Normalise

DEFAULT_MODEL = "mlp"
OF_FILES = ("sequences", "client_from", "file_column", "skip_unreadable", "images", "sounds")
"""Arguments of ``fl.read`` about data whose samples are files, which a config calls the same."""
COLUMNS = {"client": "client_column", "group": "group_column"}
"""Arguments of ``fl.read`` that a config calls otherwise."""
TITLE = "title"
"""An argument of ``fl.read`` that changes no result."""

DEPLOYMENT = ColumnDeployment()


@dataclass(frozen=True)
class OwnDataBuilder:
    """Builds the task ``own``: the user's table, arrays, LEAF files or files per client, and a model over them."""

    local: LocalWork = field(default_factory=LocalWork)
    deployment: TaskDeployment = DEPLOYMENT
    standalone_model: ClassVar[None] = None

    def describe(self) -> str:
        """One line about the task."""
        return f"your own file or folder (--data, task.path); model {DEFAULT_MODEL}"

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with the model and the partition written out and an absolute path."""
        partition = None if settings.partition is None else complete_partition(partitioner(settings.partition))
        return settings.complete(_usual_model(settings), partition=partition)

    def build(self, settings: TaskSettings) -> Task:
        """Read the data, divide them among clients (their own, where they are named), and build the model."""
        if settings.path is None:
            raise FedloomError("task 'own' needs the path of your data: give --data FILE, or task.path in the config.")
        settings = self.complete(settings)
        federation = read(
            str(settings.path),
            target=settings.target,
            client=settings.client_column,
            group=settings.group_column,
            clients=settings.clients,
            partition=settings.partition,
            ignore=settings.ignore,
            kind=settings.kind,
            text=settings.text,
            dates=settings.dates,
            empty_labels=settings.empty_labels,
            seed=settings.seed,
            test_share=settings.test_share,
            valid_share=settings.valid_share,
            **{key: getattr(settings, key) for key in OF_FILES},
        )
        federation = with_data_settings(federation, settings)
        model = settings.model or DEFAULT_MODEL
        options = settings.model_options
        task = task_of(federation, model, seed=settings.seed, model_options=options, models=settings.models)
        return replace(task, made_from=settings.section(settings.clients), python_objects=settings.python_objects)


OWN = OwnDataBuilder()


def _usual_model(settings: TaskSettings) -> str:
    """The model where the user names none: it follows from what the samples are, before they are read."""
    if settings.kind == "tokens":
        return TAGGER
    if settings.text is not None:
        return TEXT_MODEL
    if settings.model is not None or settings.path is None:
        return DEFAULT_MODEL
    if settings.sequences is not None or has_lengths(Path(settings.path).expanduser()):
        return SEQUENCE_MODEL
    columns = TableColumns(settings.target, settings.client_column, settings.ignore, settings.group_column)
    medium = medium_of(Path(settings.path).expanduser(), columns, settings.file_column)
    return DEFAULT_MODEL if medium is None else medium.usual_model


def task_of(
    federation: Federation,
    model: nn.Module | str | Maker | None = None,
    *,
    name: str = "own",
    objective: Objective | None = None,
    loss: LossSpec = None,
    seed: int = 0,
    model_options: Mapping[str, Any] | None = None,
    models: ModelTable | None = None,
    normalise: bool = True,
    metrics: MetricSpecs = (),
    communal: Any = None,
    server_set: Any = None,
    stream: ClassStream | Mapping[str, Any] | None = None,
    frozen: Sequence[str] = (),
    adapters: AdapterSpec = None,
) -> Task:
    """A task from a federation and a model.

    Args:
        federation: The clients' data, for instance from ``fl.from_arrays`` or ``fl.read``.
        model: A name of ``fedloom list models``, any module, or a class or function that makes one. Over several
            input columns, a model that takes a dict gets their tensors by name, and any other gets one tensor, joined
            along axis 1. By default ``mlp``; ``lenet-small`` for files of images, ``conv1d`` for files of sounds,
            ``bag-of-words`` for a text, ``sequence-conv`` for sequences of unequal length and ``tagger`` for a class
            per token.
        name: What the task is called in records and reports.
        objective: A loss and a score of your own, instead of ``loss``.
        loss: A name of ``fedloom list losses``, ``{"name": ..., settings}``, a loss, or a function of outputs and
            targets that returns one loss per sample. By default it follows from the targets: cross-entropy for classes,
            Huber for numbers, binary cross-entropy for labels.
        seed: The seed of the initial weights of a model that is made here, of shares that are set aside and of the
            stream's order.
        model_options: Options of a model that is made here.
        models: The clients' models, where they differ, and who has which: ``{"mlp": 0.5, "mlp:hidden=[16]": [0, 3]}``.
        normalise: Whether float and image inputs are normalised by the training data's mean and spread.
        metrics: Names of ``fedloom list metrics``, ``{"name": ..., settings}`` or metrics; the first is the task's
            score in tables, figures, sweeps and advice. Without any, they follow from the targets: accuracy; MAE, RMSE
            and R2 for numbers; macro and micro F1 for labels.
        communal: Samples that the server and all clients may see: inputs ``x`` without labels, or a pair ``(x, y)``, as
            ``fl.from_arrays`` takes them; for data from a table, ``x`` is a frame with its input columns. As in a
            config, also a share of the training data (``0.2``), or ``{"path": ...}``.
        server_set: Samples that only the server has, in the same forms.
        stream: The tasks in which clients meet the classes: ``{"tasks": 5, "rounds": 6}``.
        frozen: Patterns of parameters that keep their initial weights and never travel: ``["body.*"]``.
        adapters: Low-rank adapters of linear layers, which alone train and travel: ``{"rank": 4}``.
    """
    if objective is not None and loss is not None:
        raise FedloomError("objective and loss both say what the model is trained by: give one.")
    table = complete_models(models or {})
    if model is None and table:
        model = str(next(iter(table.values()))["model"])
    if model is None:
        usual = DEFAULT_MODEL if federation.plan is None else federation.plan.usual_model or DEFAULT_MODEL
        model = TAGGER if target_kind(federation.columns["y"]) == "tokens" else usual
    sets = read_sets(communal, server_set, stream)
    known = TaskSettings(
        name,
        model=model,
        model_options=model_options or {},
        models=table,
        loss=loss,
        metrics=metrics,
        seed=seed,
        frozen=column_names(frozen),
        adapters=read_adapters(adapters),
        **sets,
    )
    settings, objects = _settings(federation, known.with_named_model())
    federation = with_data_settings(federation, settings)
    columns = federation.columns
    if objective is not None:
        objects["objective"] = type(objective).__qualname__
    if not normalise:
        objects["normalise"] = "off"
    if isinstance(model, str):
        model, options = split_spec(model)
        model_options = {**(model_options or {}), **options}
    if not isinstance(model, nn.Module):
        model_options = with_vocabulary(model, model_options or {}, federation.plan)
        model = build(model, input_shapes(columns), federation.classes, seed, **model_options)
    prepare = {}
    for column in input_names(columns) if normalise else ():
        if columns[column].is_floating_point() or columns[column].dtype == torch.uint8:
            mean, std = _kept_indicators(*input_statistics(federation, column), federation.plan)
            prepare[column.removeprefix(PREFIX)] = Normalise(tuple(mean.tolist()), tuple(std.tolist()))
    names = (federation.name(client) for client in range(federation.clients))
    whole = prepare.get("x") if "x" in columns else prepare
    task = Task(
        name,
        federation,
        model,
        objective=objective or make_objective(loss, federation, target_units(federation)),
        prepare=whole,
        made_from=settings.section(settings.clients),
        python_objects=objects | settings.python_objects,
        architectures=build_architectures(table, names, input_shapes(columns), federation.classes, seed),
    )
    return with_metrics(with_trained_parts(fit_inputs(task), settings), metrics)


def _kept_indicators(mean: Tensor, std: Tensor, plan: InputPlan | None) -> tuple[Tensor, Tensor]:
    """Mean and spread that leave features of 0 and 1 as they are: a rare level is not blown up."""
    if plan is None or not plan.indicators:
        return mean, std
    marks = torch.tensor(plan.indicators)
    return mean.masked_fill(marks, 0.0), std.masked_fill(marks, 1.0)


def _settings(federation: Federation, settings: TaskSettings) -> tuple[TaskSettings, dict[str, str]]:
    """The settings with those that read the data, and what of the data no config can hold."""
    if federation.read_with is None:
        named: dict[str, Any] = {"loss": complete_loss(settings.loss), "metrics": complete_metrics(settings.metrics)}
        return replace(settings, clients=federation.clients, **named), {"data": IN_MEMORY}
    read_with = {COLUMNS.get(key, key): value for key, value in federation.read_with.items() if key != TITLE}
    read_with["ignore"] = list(read_with.get("ignore", ()))
    if not isinstance(read_with.get("target", ""), str):
        read_with["target"] = ",".join(read_with["target"])
    read_with["text"] = text_settings(read_with.get("text"))
    for name, kind in (("images", Images), ("sounds", Sounds), ("sequences", Sequences)):
        if read_with.get(name) is not None:
            read_with[name] = validate(kind, read_with[name], name)
    known = {key: value for key, value in read_with.items() if hasattr(settings, key)}
    usual = {**signature(read).parameters, **signature(from_arrays).parameters}
    others = {key: value for key, value in read_with.items() if key not in known}
    objects = {key: str(value) for key, value in others.items() if value != usual[key].default}
    if known.pop("seed", TaskSettings.seed) != settings.seed:
        objects["seed"] = f"{settings.seed} of the model, another of the data"
    return OWN.complete(replace(settings, name="own", **known)), objects
