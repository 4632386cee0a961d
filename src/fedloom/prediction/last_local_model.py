"""A client predicts with the model it last trained itself.

Some studies, Fed-GALA among them, evaluate clients' models after local training and before the next average. This stage
does so after any method; the exchanged models do not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Kept
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage

ROW = "own/row"
"""Client state: the row it last trained."""


@dataclass(frozen=True)
class LastLocalModel(PredictionStage):
    """Predict with the model that the client last trained; clients that never trained use the method's model."""

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.EXCHANGES, Fact.TRAINS_LOCALLY), "predicts with the model that a client trained last: drop lastlocalmodel"
    )
    keeps: ClassVar[Kept] = {ROW: "the model that the site trained last"}

    def after_update(self, cohort: Cohort) -> None:
        if cohort.after is not None and cohort.round:  # training before round 1 does not count
            cohort.keep(ROW, cohort.after)

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows(ROW, rows)
