"""The task's own model in the row of a run whose method added modules to it (a projection head)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.model.adapted_model import model_row
from fedloom.core.task import Task
from fedloom.registry.kinds import METHODS


def unadapted_row(row: Tensor, task: Task, method: Algorithm | Mapping[str, Any]) -> Tensor:
    """The numbers of the task's model alone; a row that is not of this method's model is returned as it is.

    Args:
        task: The task as the user built it.
        method: The run's method, or the section ``method`` of its config.
    """
    if len(row) == task.layout.width:
        return row
    if not isinstance(method, Algorithm) and _is_object(str(method.get("name"))):
        raise FedloomError(
            f"the method {method.get('name')} is a Python object, and its model may have modules that the "
            "task's does not have: give it with method=."
        )
    adapted = (method if isinstance(method, Algorithm) else METHODS.make(method)).adapt_task(task)
    return model_row(adapted, row) if len(row) == adapted.layout.width else row


def _is_object(name: str) -> bool:
    """Whether a config cannot build the method that it calls by this name."""
    return ":" not in name and METHODS.canonical(name) not in METHODS
