"""The metrics of a task (``task.metrics`` in a config): from their names, and as a config writes them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.targets import TargetKind
from fedloom.core.task import Task
from fedloom.metrics.regression import metrics_of_each_number
from fedloom.metrics.task_accuracy import TaskAccuracy
from fedloom.registry.kinds import METRICS

USUAL: dict[TargetKind, tuple[str, ...]] = {
    "classes": (),
    "tokens": (),
    "number": ("mae", "rmse", "r2"),
    "labels": ("macro_f1", "micro_f1"),
}
"""The metrics of a task that names none. With none at all, the score is the objective's: accuracy."""

MetricSpecs = Sequence[Metric | type[Metric] | str | Mapping[str, Any]] | str
"""Metrics, or what names them: ``["macro_f1", {"name": "auc", "bins": 512}]``, or ``"macro_f1,auc"``."""

TAKEN = ("loss", "score")


def make_metrics(specs: MetricSpecs) -> list[Metric]:
    """The metrics that a config or a call names; the first is the score."""
    values = metric_list(specs)
    metrics: list[Metric] = METRICS.make(values)
    names = [metric.name for metric in metrics]
    for place, name in enumerate(names):
        if name in TAKEN or not re.fullmatch(r"\w[\w.-]*", name):
            raise FedloomError(f"a metric cannot be called {name!r}: use letters, digits and underscores.")
        if name in names[:place]:
            raise FedloomError(f"task.metrics has two metrics called {name}: name each one once.")
    return metrics


def metric_list(specs: Any) -> Any:
    """Metrics as a list; a text has names between commas, and a section or a metric alone is a list of one."""
    if isinstance(specs, Mapping | Metric):
        return [specs]
    if isinstance(specs, str):
        return [name.strip() for name in specs.split(",") if name.strip()]
    return list(specs) if isinstance(specs, tuple) else specs


def complete_metrics(specs: MetricSpecs) -> tuple[Metric | dict[str, Any], ...]:
    """The sections that make the metrics again, with every setting; a metric that no config can name stays itself."""
    metrics = make_metrics(specs)
    return tuple(METRICS.plain_one(one) if METRICS.can_name(type(one)) else one for one in metrics)


def with_metrics(task: Task, specs: MetricSpecs) -> Task:
    """The task with these metrics, or the usual ones of its targets; a metric that it cannot have is refused.

    A stream also has the accuracy on each of its tasks, and targets of several numbers have each metric of each.
    """
    tasks = enumerate(task.federation.tasks, start=1)
    of_tasks = [TaskAccuracy(number, classes) for number, classes in tasks]
    named = make_metrics(specs or (("accuracy",) if of_tasks else USUAL[task.kind]))
    metrics: list[Metric] = [*named, *of_tasks, *metrics_of_each_number(task, named)]
    for metric in metrics:
        metric.check(task)
    return replace(task, metrics=tuple(metric.fit(task) for metric in metrics))
