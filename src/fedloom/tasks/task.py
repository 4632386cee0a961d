"""``fl.task``: data, model and loss under one name, with local work that is known to train.

``task("digits", clients=50, partition=dirichlet(0.1))`` is a named task. For a federation and a model of your own see
``tasks/own_data.py`` (``fl.task_of``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from fedloom.core.arguments import real_number, whole_number
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.changes.class_stream import ClassStream
from fedloom.data.changes.communal_set import Communal
from fedloom.data.changes.concept_drift import Drift
from fedloom.data.changes.server_set import ServerSet
from fedloom.data.changes.withheld_class import Withhold
from fedloom.data.partition.base import Partitioner
from fedloom.data.partition.partitioner import dirichlet
from fedloom.data.read import refuse_unclear_alpha
from fedloom.data.targets import target_units
from fedloom.losses.make_objective import LossSpec, make_objective
from fedloom.metrics.make_metrics import MetricSpecs, with_metrics
from fedloom.models import Maker
from fedloom.registry.kinds import TASKS
from fedloom.tasks.architectures import ModelTable
from fedloom.tasks.builder import TaskSettings, task_builder


def build_task(settings: TaskSettings) -> Task:
    """The task that settings name."""
    settings = replace(settings, name=TASKS.canonical(settings.name)).with_named_model()
    usual = TaskSettings(settings.name)
    for about in ("kind", "target", "client_column", "ignore"):
        value = getattr(settings, about)
        if settings.name != "own" and value not in (getattr(usual, about), []):
            raise FedloomError(
                f"{about}={value} is about your own data, but task {settings.name} has its own: leave it out, or give "
                "--data FILE."
            )
    built = task_builder(settings.name).build(settings)
    if settings.loss is not None:
        units = target_units(built.federation)
        built = replace(built, objective=make_objective(settings.loss, built.federation, units))
    return with_metrics(built, settings.metrics)


def task(
    name: str,
    *,
    clients: int | None = None,
    partition: Partitioner | str | Mapping[str, Any] | None = None,
    alpha: float | None = None,
    model: str | nn.Module | Maker | None = None,
    model_options: Mapping[str, Any] | None = None,
    models: ModelTable | None = None,
    test_share: float = TaskSettings.test_share,
    valid_share: float = TaskSettings.valid_share,
    communal_per_class: int = TaskSettings.communal_per_class,
    communal: float | Communal | Mapping[str, Any] | None = None,
    server_set: float | ServerSet | Mapping[str, Any] | None = None,
    label_share: float | None = None,
    stream: ClassStream | Mapping[str, Any] | None = None,
    augment: bool = TaskSettings.augment,
    withhold: Withhold | Mapping[str, Any] | None = None,
    drift: Drift | Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    path: str | None = None,
    target: str | Sequence[str] = TaskSettings.target,
    client_column: str = TaskSettings.client_column,
    group_column: str | None = TaskSettings.group_column,
    ignore: Sequence[str] = (),
    kind: str | None = None,
    loss: LossSpec = None,
    metrics: MetricSpecs = (),
    seed: int = TaskSettings.seed,
) -> Task:
    """A named task.

    Args:
        name: A name of ``fedloom list tasks``.
        clients: How many clients share the data; the data's own number by default.
        partition: How the data are divided: a partitioner, ``"dirichlet(0.1)"``, or a mapping with ``name``.
        alpha: Short for ``partition=dirichlet(alpha)``.
        model: A name of ``fedloom list models``, any module, or a class or function that makes one (itself, or
            ``"net.py:Net"``); the task's default model by default.
        model_options: Options of a model that is made here.
        models: The clients' models, where they differ, and who has which: a share of the clients, a list of them, or
            ``"slow"``, ``"medium"`` or ``"fast"`` devices (``{"resnet8": 0.5, "mini-mobilenet": 0.5}``). ``model`` is
            then the server's, by default the one named first.
        test_share: The share of each client's samples that is kept for testing.
        valid_share: The share of each client's samples that is kept for validation.
        communal_per_class: Test samples of each class that are set aside for everyone to see.
        communal: A share of all clients' training data that everyone may see (0.2), ``{"share": 0.2, "labelled":
            False}``, or ``{"path": "public.npz"}``. These samples are in no other part.
        server_set: Samples that only the server has: ``{"share": 0.1}`` of the training data, ``{"data": "cifar10",
            "labelled": False}`` for another data set with inputs of the same shape, or ``{"path": "server.npz"}``.
        label_share: The share of each client's training samples that have a label; the others' do not count.
        stream: ``{"tasks": 5, "rounds": 6}`` lets clients meet the classes in five tasks of six rounds each, in an
            order drawn by the seed or given as ``order``. With ``"cumulative": True`` they keep earlier tasks' samples.
        augment: Whether training images are shifted and mirrored at random.
        withhold: ``{"label": 3, "clients": 2}`` removes a class from some clients' training data.
        drift: ``{"rounds": [10]}`` lets clients exchange their data in round 10.
        options: Settings that only this kind of task has.
        path: The file or folder of a task that reads your data, such as ``own``.
        target: The column of your table that holds the target; several columns of 0 and 1 are labels.
        client_column: The column of your table that says whose sample it is.
        group_column: The column of your table that says which samples belong together, such as a patient.
        ignore: Columns of your table that are left out.
        kind: What your targets are, where their values do not show it: classes, number, labels or tokens.
        loss: A name of ``fedloom list losses``, ``{"name": ..., settings}``, a loss, or a function of outputs and
            targets that returns one loss per sample; by default the usual loss of the targets.
        metrics: Names of ``fedloom list metrics``, ``{"name": ..., settings}`` or metrics; the first is the task's
            score in tables, figures, sweeps and advice. Without any, it is accuracy; of numbers MAE, of labels macro
            F1.
        seed: The seed of the partition and of the initial model.
    """
    if not isinstance(name, str):
        raise FedloomError(f"task name={name!r}: give a name of 'fedloom list tasks', for instance 'digits'.")
    clients = None if clients is None else whole_number("clients", clients, least=None)
    for key, share in {"test_share": test_share, "valid_share": valid_share}.items():
        real_number(key, share)
    if alpha is not None:
        if partition is not None:
            raise FedloomError(f"alpha={alpha} and partition={partition} both say how to divide the data: give one.")
        alpha = real_number("alpha", alpha)
        if path is not None and TASKS.canonical(name) == "own":
            refuse_unclear_alpha(path, client_column, alpha)
        partition = dirichlet(alpha)
    settings = TaskSettings(
        name,
        clients=clients,
        partition=partition,
        model=model,
        model_options=model_options or {},
        models=models or {},
        test_share=test_share,
        valid_share=valid_share,
        communal_per_class=communal_per_class,
        communal=communal,
        server_set=server_set,
        label_share=None if label_share is None else real_number("label_share", label_share),
        stream=stream,
        augment=augment,
        withhold=withhold,
        drift=drift,
        options=options or {},
        path=path,
        target=target if isinstance(target, str) else ",".join(target),
        client_column=client_column,
        group_column=group_column,
        ignore=tuple(ignore),
        kind=kind,
        loss=loss,
        metrics=metrics,
        seed=whole_number("seed", seed, least=0),
    )
    return build_task(settings)
