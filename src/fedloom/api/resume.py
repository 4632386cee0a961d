"""``fl.resume``: continue a stopped run or comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.api.compare import Comparison, resume_comparison
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import path_from
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task, check_task
from fedloom.registry.code_consent import trust_changed_code
from fedloom.runs.plans.compare import PLAN
from fedloom.runs.plans.plan import PLAN_FILES, TaskOf
from fedloom.runs.results.history import History
from fedloom.runs.run import resume_run, warn_if_stopped
from fedloom.runs.runner import Observer


def resume(
    folder: str | Path,
    *,
    task: Task | TaskOf | None = None,
    method: Algorithm | None = None,
    rounds: int | None = None,
    from_round: int | None = None,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    engine: str | None = None,
    ray_address: str | None = None,
    observers: Sequence[Observer] = (),
    track: Sequence[str] = (),
    trust: bool = False,
) -> History | Comparison:
    """Continue a stopped run or comparison. The result has the same bytes as if it had never been stopped.

    Args:
        folder: The folder of a run or of a comparison.
        task: The task, if it is a Python object that the folder cannot name.
        method: The run's method, if it is a Python object. A comparison of Python objects is continued by the call
            that started it.
        rounds: More rounds than it was started with, to go on further. The result has the bytes of a run that was
            started with so many; a run whose rounds depend on their number (the schedule ``cosine``) is refused.
        from_round: For a run: the round after which it goes on, of which the folder must have a checkpoint (it has the
            last three). Records of later rounds are forgotten. A run that diverged goes on only this way.
        settings: With ``from_round``, other settings for what follows, by their keys: ``{"local.lr": 0.01}``. The
            config then says with which ones the rounds before were played.
        workers: Another number of worker processes. This argument and the next two never change a result.
        engine: Another engine, for a run.
        ray_address: Another Ray cluster, for a run.
        observers: Functions that are called with the record of each round, including the rounds before the stop.
        track: Trackers that get every metric too: ``tensorboard``, ``mlflow``, ``wandb``.
        trust: Whether code that the folder names may run although it has changed since the start, or you have started
            no run with it on this machine.
    """
    folder, trusting = path_from("folder", folder), trust_changed_code(bool(trust))
    kind = next((what for file, what in PLAN_FILES.items() if (folder / file).exists()), None)
    if kind is None:
        if callable(task):
            raise FedloomError("task is a function of the seed, but a run has one seed: give the task itself.")
        if task is not None:
            check_task(task)
        with trusting:
            history = resume_run(
                folder, task=task, method=method, rounds=rounds, from_round=from_round, settings=settings,
                workers=workers, engine=engine, ray_address=ray_address, observers=observers, track=track,
            )  # fmt: skip
        warn_if_stopped([history])
        return history
    if not (folder / PLAN).exists():
        raise FedloomError(
            f"{folder} contains a {kind}: repeat the Python call that started it with the same out, or use fedloom "
            "resume."
        )
    if any(one is not None for one in (method, engine, ray_address, from_round, settings)):
        raise FedloomError(
            "method, engine, ray_address, from_round and settings are for a single run, but this is a comparison: "
            "leave them."
        )
    with trusting:
        found = resume_comparison(
            folder, task=task, rounds=rounds, workers=workers, observers_of=lambda *_: observers, track=track
        )
    warn_if_stopped(history for histories in found.values() for history in histories)
    return found
