"""Fine-tuning: a client trains what it is about to predict with on its own data, and forgets it afterwards.

The oldest way to make a shared model personal, and the last step of FedBABU (Oh et al., ICLR 2022:
``fedbabu+finetune``). Nothing of it is kept or sent: training goes on from the weights before the tuning. The tuning's
batches are not those of the round's training, and its steps are not counted as the run's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task


@dataclass(frozen=True)
class FineTune(PredictionStage):
    """Train for ``epochs`` on the client's own training data before predicting; never feeds back into training.

    ``part`` names the only part of the model that is tuned (default: all of it); ``lr`` is the learning rate (default:
    that of the round's local work). New clients are tuned too: they have data, only no say in training.
    """

    part: str | None = None
    epochs: int = 1
    lr: float | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise FedloomError(f"epochs={self.epochs}: finetune trains for at least one epoch; else leave it out.")
        if self.lr is not None and not (self.lr > 0 and math.isfinite(self.lr)):
            raise FedloomError(f"lr={self.lr}: finetune's learning rate must be a positive number.")

    def check(self, algorithm: Algorithm, task: Task) -> None:
        if self.part is not None and self.part not in task.layout.parts:
            raise FedloomError(
                f"finetune cannot tune part '{self.part}', which the model does not have: it has "
                f"{', '.join(task.layout.parts)}."
            )

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        work = replace(cohort.setting.work, epochs=self.epochs, steps=None, partial=0.0)
        if self.lr is not None:
            work = replace(work, lr=self.lr, schedule="constant")
        return cohort.train(rows, work=work, part=self.part)
