"""The task's own model in the row of a run whose method added modules to it (a projection head)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedloom.core.adapted_model import model_row
from fedloom.core.algorithm import Algorithm
from fedloom.core.task import Task
from fedloom.methods.registry import make_method


def unadapted_row(row: Tensor, task: Task, method: Algorithm | Mapping[str, Any]) -> Tensor:
    """The numbers of the task's model alone; a row that is not of this method's model is returned as it is.

    Args:
        row: A row of the run.
        task: The task as the user built it.
        method: The run's method, or the section ``method`` of its config.
    """
    if len(row) == task.layout.width:
        return row
    adapted = (method if isinstance(method, Algorithm) else make_method(method)).adapt_task(task)
    return model_row(adapted, row) if len(row) == adapted.layout.width else row
