"""One run from Python: ``fl.run``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import Method, method_from, run_label
from fedloom.config.resolve import method_from_config, resolve
from fedloom.config.schema import RunConfig
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import observer_list, path_from
from fedloom.core.errors import StoppedWarning
from fedloom.core.task import Task, check_task
from fedloom.metrics.make_metrics import complete_metrics
from fedloom.registry.kinds import METHODS
from fedloom.registry.plain_values import hyperparameters
from fedloom.registry.setting_arguments import documents_settings
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import Observer, execute
from fedloom.runs.trackers import make_trackers
from fedloom.tasks.task import task as named_task


@documents_settings(RunConfig, without=("task", "method"))
def run(
    task: Task | str,
    method: Method = "fedavg",
    *,
    out: str | Path | None = None,
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
    **settings: Any,
) -> History:
    """Train a task with a method and return what was measured.

    A run with a folder can be stopped at any time and continued with ``fl.resume`` or ``fedloom resume``.

    Args:
        task: A task, or the name of a task, which is then built with its default settings.
        method: A method's spec (``"fedprox:mu=0.1"``, with prediction stages ``"fedavg+finetune"``), or a method.
        out: A folder for the run; it must not contain a run yet. Without it, the run stays in memory.
        observers: Functions that are called with each round's record.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        **settings: Any key of a run's config, see the reference: ``rounds=30``, ``local={"lr": 0.05}``, ``workers=2``,
            ``selection={"fraction": 0.1}``, ``server_optimizer={"kind": "yogi"}`` ...

    Returns:
        The history: the config, a record per round, and a row per client. A run that diverged has ``stopped``, and
        warns with ``fl.StoppedWarning``.
    """
    task = named_task(task, seed=settings.get("seed")) if isinstance(task, str) else check_task(task)
    watch, folder = observer_list(observers), None if out is None else path_from("out", out)
    values = {**settings, "task": task_section(task)}
    values["method"] = method if isinstance(method, str) else method_section(method_from(method))
    config = resolve(values, "the run's settings", task=None if task.is_named else task)
    algorithm = method_from_config(config) if isinstance(method, str) else method_from(method)
    prepared = prepare(task, algorithm, config)
    trackers = make_trackers(track, folder, run_label(prepared.plain) if folder is None else folder.name)
    history = execute(prepared, folder, [*watch, *trackers])
    warn_if_stopped([history])
    return history


def warn_if_stopped(histories: Iterable[History]) -> None:
    """Warn about runs that ended before their last round.

    Args:
        histories: What the runs measured.
    """
    for history in histories:
        if history.stopped is not None:
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
