"""The prediction stage: what may happen to a client's weights between training and predicting.

A stage sits behind any method and any selection. It never touches training: with and without it, the models that
are exchanged are the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.message import Message
from fedloom.core.task import Task


@dataclass(frozen=True)
class PredictionStage:
    """A plugin. Its hyper-parameters are its fields; it holds no state of its own."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Raise a ``FedloomError``, before any work, for a method or a task that this stage does not support."""

    def after_update(self, cohort: Cohort) -> None:
        """Let clients keep something of their local work (``cohort.after`` are the rows that they trained)."""

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        """What clients predict with, given the row per client that they would predict with otherwise."""
        return rows
