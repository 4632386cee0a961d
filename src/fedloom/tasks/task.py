"""``fl.task``: data, model and loss under one name, with local work that is known to train.

``task("digits", clients=50, partition=dirichlet(0.1))`` is a named task. For a federation and a model of your own see
``tasks/own_data.py`` (``fl.task_of``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedloom.core.arguments import real_number
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.data.partition.partitioner import dirichlet
from fedloom.data.read import refuse_unclear_alpha
from fedloom.data.targets import target_units
from fedloom.losses.make_objective import make_objective
from fedloom.metrics.make_metrics import with_metrics
from fedloom.registry.kinds import TASKS
from fedloom.registry.setting_arguments import documents_settings
from fedloom.registry.validation import validate
from fedloom.tasks.builder import TaskSettings, task_builder
from fedloom.tasks.settings import TaskSection
from fedloom.tasks.trained_parts import with_trained_parts

OF_OWN_DATA = (
    *("kind", "target", "client_column", "ignore", "empty_labels"),
    *("client_from", "file_column", "skip_unreadable", "images", "sounds"),
)
"""The settings that say how a user's own data are read."""


def build_task(settings: TaskSettings) -> Task:
    """The task that settings name."""
    settings = replace(settings, name=TASKS.canonical(settings.name)).with_named_model()
    usual = TaskSettings(settings.name)
    for about in OF_OWN_DATA:
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
    return with_metrics(with_trained_parts(built, settings), settings.metrics)


@documents_settings(TaskSection)
def task(name: str, *, alpha: float | None = None, **settings: Any) -> Task:
    """A named task.

    Args:
        name: A name of ``fedloom list tasks``.
        alpha: Short for ``partition=dirichlet(alpha)``.
        **settings: The settings of a task, see the reference. One that is None has its default.
    """
    if not isinstance(name, str):
        raise FedloomError(f"task name={name!r}: give a name of 'fedloom list tasks', for instance 'digits'.")
    given = {key: value for key, value in settings.items() if value is not None}
    made: TaskSettings = validate(TaskSettings, {"name": name, **given}, "")
    if alpha is not None:
        if made.partition is not None:
            raise FedloomError(
                f"alpha={alpha} and partition={made.partition} both say how to divide the data: give one."
            )
        alpha = real_number("alpha", alpha)
        if made.path is not None and TASKS.canonical(name) == "own":
            refuse_unclear_alpha(made.path, made.client_column, alpha)
        made = replace(made, partition=dirichlet(alpha))
    return build_task(made)
