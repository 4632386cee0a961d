"""Clean, labelled samples of the server's own: the communal set of the task."""

from __future__ import annotations

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


def require_clean_samples(name: str, task: Task) -> None:
    """Refuse a task without samples of the server's own, or whose samples have no labels.

    Args:
        name: What users call the aggregator that trains on them.
    """
    if not task.federation.communal_labelled:
        raise FedloomError(
            f"{name} trains on the communal samples, which have no labels in this task: give task.communal "
            "samples with targets, and no labelled = false."
        )
    if not len(task.federation.communal):
        raise FedloomError(
            f"{name} trains on clean samples of the server's own, and the task has none: set "
            "task.communal_per_class, for instance to 5."
        )
