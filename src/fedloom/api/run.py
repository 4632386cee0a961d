"""``fl.run``: one run, in memory or in a folder with a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import Method
from fedloom.config.schema import RunConfig
from fedloom.core.arguments import path_from
from fedloom.core.task import Task
from fedloom.registry.setting_arguments import documents_settings
from fedloom.reports.run_page import write_report
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.callbacks.callback_list import observer_list
from fedloom.runs.callbacks.progress import show_progress
from fedloom.runs.results.history import History
from fedloom.runs.run import run_on_task, warn_if_stopped

REPORT = "report.html"


@documents_settings(RunConfig, without=("task", "method"))
def run(
    task: Task | str,
    method: Method = "fedavg",
    *,
    out: str | Path | None = None,
    callbacks: Sequence[Observer] = (),
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
    progress: bool | None = None,
    **settings: Any,
) -> History:
    """Train a task with a method and return what was measured.

    A run with a folder can be stopped at any time and continued with ``fl.resume`` or ``fedloom resume``.

    Args:
        task: A task, or the name of a task, which is then built with its default settings.
        method: A method's spec (``"fedprox:mu=0.1"``, with prediction stages ``"fedavg+finetune"``), or a method.
        out: A folder for the run and its report; it must not contain a run yet. Without it, the run stays in memory.
        callbacks: What is called while the run works and may stop it: ``fl.Callback`` objects, and functions that get
            each round's record.
        observers: More callbacks; the earlier name of the same list.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        progress: Whether a progress bar with the time left is shown. By default it is in a terminal and in a notebook.
        **settings: Any key of a run's config, see the reference: ``rounds=30``, ``local={"lr": 0.05}``, ``workers=2``,
            ``selection={"fraction": 0.1}``, ``server_optimizer={"kind": "yogi"}`` ...

    Returns:
        The history: the config, a record per round, and a row per client. A run that diverged has ``stopped``, and
        warns with ``fl.StoppedWarning``; one that a callback stopped has ``stopped`` too, and can be continued.
    """
    look_on, folder = observer_list(callbacks, observers), None if out is None else path_from("out", out)
    with show_progress(progress) as bar:
        history = run_on_task(task, method, out=folder, observers=[*look_on, *bar.of_run()], track=track, **settings)
    write_run_report(history)
    warn_if_stopped([history])
    return history


def write_run_report(history: History) -> None:
    """Write the report of a run into its folder, if it has one and measured something.

    Args:
        history: What the run measured.
    """
    if history.folder is not None and history.metric_names:
        write_report({history.label: [history]}, history.folder / REPORT)
