"""One run of a method on a task that are Python objects: the settings become a config, and the run is played."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import Method, method_from, run_label
from fedloom.config.resolve import method_from_config, resolve
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import StoppedWarning
from fedloom.core.task import Task, check_task
from fedloom.metrics.make_metrics import complete_metrics
from fedloom.registry.kinds import METHODS
from fedloom.registry.plain_values import hyperparameters
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.callbacks.trackers import make_trackers
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute
from fedloom.tasks.task import task as named_task


def run_on_task(
    task: Task | str,
    method: Method = "fedavg",
    *,
    out: Path | None = None,
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
    **settings: Any,
) -> History:
    """Train a task with a method, as ``fl.run`` does, and write no report.

    Args:
        task: A task, or the name of a task, which is then built with its default settings.
        method: A method's spec, or a method.
        out: A folder for the run; without it, the run stays in memory.
        observers: Callbacks, and functions that get each round's record.
        track: Trackers that get every metric too.
        **settings: Any key of a run's config.
    """
    task = named_task(task, seed=settings.get("seed")) if isinstance(task, str) else check_task(task)
    values = {**settings, "task": task_section(task)}
    values["method"] = method if isinstance(method, str) else method_section(method_from(method))
    config = resolve(values, "the run's settings", task=None if task.is_named else task)
    algorithm = method_from_config(config) if isinstance(method, str) else method_from(method)
    prepared = prepare(task, algorithm, config)
    trackers = make_trackers(track, out, run_label(prepared.plain) if out is None else out.name)
    return execute(prepared, out, [*observers, *trackers])


def warn_if_stopped(histories: Iterable[History]) -> None:
    """Warn about runs that ended before their last round, but for those that a callback of the user's stopped.

    Args:
        histories: What the runs measured.
    """
    for history in histories:
        if history.stopped is not None and not history.can_continue:
            warnings.warn(f"{history.stopped.rstrip('.')}; what was measured before is kept.", StoppedWarning, 3)


def task_section(task: Task) -> dict[str, Any]:
    """The config section of a task object: the settings that rebuild it, or else its name and number of clients."""
    if task.made_from:
        return dict(task.made_from)
    metrics = [one for one in complete_metrics(task.metrics) if isinstance(one, dict)]
    section = {"name": task.name, "clients": task.federation.clients}
    return section | {"metrics": metrics} if metrics else section


def method_section(method: Algorithm) -> dict[str, Any]:
    """The section of a config for a method object."""
    return {"name": METHODS.name_of(type(method)) or type(method).__name__.lower(), **hyperparameters(method)}
