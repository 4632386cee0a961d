"""``fl.resume``: continue a stopped run or comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.api.compare import Comparison, resume_comparison
from fedloom.api.run import write_run_report
from fedloom.config.settings import ResumeSettings
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import path_from
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task, check_task
from fedloom.registry.code_consent import trust_changed_code
from fedloom.registry.setting_arguments import documents_settings
from fedloom.registry.validation import validate
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.callbacks.callback_list import for_one_run, observer_list
from fedloom.runs.callbacks.progress import show_progress
from fedloom.runs.callbacks.trackers import make_trackers
from fedloom.runs.plans.compare import PLAN
from fedloom.runs.plans.members import TaskOf
from fedloom.runs.plans.plan import PLAN_FILES, read_plan, with_article
from fedloom.runs.results.history import History
from fedloom.runs.resume import resume_run
from fedloom.runs.run import warn_if_stopped


@documents_settings(ResumeSettings)
def resume(
    folder: str | Path,
    *,
    task: Task | TaskOf | None = None,
    method: Algorithm | None = None,
    callbacks: Sequence[Observer] = (),
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
    progress: bool | None = None,
    trust: bool = False,
    **settings: Any,
) -> History | Comparison:
    """Continue a stopped run or comparison. The result has the same bytes as if it had never been stopped.

    With more ``rounds``, the result has the bytes of a run that was started with that many; a run whose rounds depend
    on their number (the schedules ``cosine`` and ``onecycle``) is refused. A run that diverged continues only with
    ``from_round``.

    Args:
        folder: The folder of a run or of a comparison.
        task: The task, if it is a Python object that the folder cannot name.
        method: The run's method, if it is a Python object. A comparison of Python objects is continued by the call
            that started it.
        callbacks: What is called while the run works and may stop it, see ``fl.run``. Each gets the records of the
            rounds before the stop too.
        observers: More callbacks; the earlier name of the same list.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        progress: Whether a progress bar with the time left is shown. By default it is in a terminal and in a notebook.
        trust: Whether code that the folder names may run although it has changed since the start, or you have started
            no run with it on this machine.
        **settings: What changes, see ``ResumeSettings``.
    """
    folder, look_on = path_from("folder", folder), observer_list(callbacks, observers)
    changes: ResumeSettings = validate(ResumeSettings, _given(settings), "")
    if method is not None and not isinstance(method, Algorithm):
        raise FedloomError(f"method={method!r}: give a method object; one that has a name is read from the folder.")
    kind = next((what for file, what in PLAN_FILES.items() if (folder / file).exists()), None)
    if kind is None:
        if callable(task):
            raise FedloomError("task is a function of the seed, but a run has one seed: give the task itself.")
        if task is not None:
            check_task(task)
        with trust_changed_code(bool(trust)), show_progress(progress) as bar:
            observed: list[Observer] = [*look_on, *bar.of_run(), *make_trackers(track, folder, folder.name)]
            history = resume_run(folder, changes, task=task, method=method, observers=observed)
        write_run_report(history)
        warn_if_stopped([history])
        return history
    if not (folder / PLAN).exists():
        raise FedloomError(
            f"{folder} contains {with_article(kind)}: repeat the Python call that started it with the same out, or use "
            "fedloom resume."
        )
    if method is not None or changes.of_a_run:
        raise FedloomError(
            "method, engine, ray_address, from_round and settings are for a single run, but this is a comparison: "
            "leave them out."
        )
    plan = read_plan(folder, PLAN, has_task=task is not None)
    with trust_changed_code(bool(trust)), show_progress(progress, len(plan["methods"]) * plan["seeds"]) as bar:
        found = resume_comparison(
            folder,
            changes,
            task=task,
            observers_of=lambda *_: [*for_one_run(look_on), *bar.of_run()],
            track=track,
        )
    warn_if_stopped(history for histories in found.values() for history in histories)
    return found


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}
