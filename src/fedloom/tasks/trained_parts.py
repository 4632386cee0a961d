"""Which parts of a task's model train: ``task.frozen`` and ``task.adapters``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.model.frozen_parts import freeze, unfreeze
from fedloom.core.model.low_rank_adapters import LowRankAdapters, with_adapters, without_adapters
from fedloom.core.task import Task
from fedloom.registry.validation import validate
from fedloom.tasks.settings import AdapterSpec, TaskSection


def read_adapters(adapters: AdapterSpec) -> LowRankAdapters | None:
    """The settings of adapters; a wrong table is refused.

    Args:
        adapters: What the user gave.
    """
    if not isinstance(adapters, Mapping):
        return adapters
    made: LowRankAdapters = validate(LowRankAdapters, dict[str, Any](adapters), "task.adapters")
    return made


def retrained(task: Task, frozen: Sequence[str], adapters: AdapterSpec, seed: int) -> Task:
    """The same task with other parts that train, as if it had been made so.

    Args:
        frozen: The setting ``frozen``.
        adapters: The setting ``adapters``.
        seed: The setting ``seed``.
    """
    if task.architectures is not None:
        return task
    plain = replace(task, model=unfreeze(without_adapters(task.model)))
    return with_trained_parts(plain, TaskSection(frozen=list(frozen), adapters=adapters, seed=seed))


def with_trained_parts(task: Task, settings: TaskSection) -> Task:
    """The task whose model trains only what its settings leave to train.

    Args:
        task: A task that was just made, with the model as its builder made it.
        settings: The settings ``frozen``, ``adapters`` and ``seed``.
    """
    adapters = read_adapters(settings.adapters)
    if not settings.frozen and adapters is None:
        return task
    if settings.frozen and adapters is not None:
        raise FedloomError(
            "task.frozen and task.adapters both say what trains: with adapters everything else is frozen already, "
            "so leave out frozen, and name what else is to train in adapters.train."
        )
    if task.architectures is not None:
        which = "frozen" if settings.frozen else "adapters"
        raise FedloomError(f"task.{which} is about one model, and task.models has several: leave out one of the two.")
    if adapters is None:
        return replace(task, model=freeze(task.model, settings.frozen))
    return replace(task, model=with_adapters(task.model, adapters, settings.seed or 0))
