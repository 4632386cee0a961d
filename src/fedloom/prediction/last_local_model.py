"""A client predicts with the model it last trained itself.

Some studies score what clients have after their own training and before the next average reaches them (Fed-GALA among
them). This stage does that behind any method; what is exchanged does not change.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task

ROW = "own/row"
"""What a client keeps: the row it last trained."""


@dataclass(frozen=True)
class LastLocalModel(PredictionStage):
    """Predict with the model that the client trained last; clients that never trained predict as the method says."""

    def check(self, algorithm: Algorithm, task: Task) -> None:
        if not algorithm.communicates or not algorithm.trains_locally:
            raise FedloomError(
                "lastlocalmodel predicts with the model that a client last trained, and in "
                f"{type(algorithm).__name__.lower()} clients train none or keep no other: drop lastlocalmodel."
            )

    def after_update(self, cohort: Cohort) -> None:
        if cohort.after is not None and cohort.round:  # what comes before the first round is no training of the method
            cohort.keep(ROW, cohort.after)

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows(ROW, rows)
