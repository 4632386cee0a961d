"""How a stopped run continues: from its last whole checkpoint, to the same bytes as without the stop."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.config.resolve import method_from_config, task_from_config
from fedloom.config.schema import with_settings
from fedloom.config.settings import ResumeSettings
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.folder.load_config import load_config_to_resume
from fedloom.runs.more_rounds import with_rounds
from fedloom.runs.prepare import prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import resume

AS_IT_WAS = ResumeSettings()


def resume_run(
    folder: Path,
    changes: ResumeSettings = AS_IT_WAS,
    *,
    task: Task | None = None,
    method: Algorithm | None = None,
    observers: Sequence[Observer] = (),
) -> History:
    """Continue a stopped run; see ``fl.resume``.

    Args:
        folder: The run's folder.
        changes: With what it continues, where that is not what it was started with.
        task: The run's task, if it is a Python object that the config in the folder cannot name.
        method: The run's method, if it is a Python object that the config in the folder cannot name.
        observers: Functions that are called with the record of each round.
    """
    if changes.settings and changes.from_round is None:
        raise FedloomError(
            f"{', '.join(changes.settings)}: a run continues with its own settings, unless it goes back to an earlier "
            "round: name that round too (from_round, --from-round)."
        )
    config = load_config_to_resume(folder, task=task, method=method, settings=changes.settings)
    config = with_rounds(config, changes.rounds)
    where = {"workers": changes.workers, "engine": changes.engine, "ray_address": changes.ray_address}
    given: dict[str, Any] = {key: value for key, value in where.items() if value is not None}
    if changes.engine is not None:  # the cluster of another engine means nothing to this one
        given = {"ray_address": None, **given}
    config = with_settings(config, given)
    prepared = prepare(task or task_from_config(config), method or method_from_config(config), config)
    return resume(prepared, folder, observers, from_round=changes.from_round)
