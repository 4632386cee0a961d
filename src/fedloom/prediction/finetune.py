"""Fine-tuning: before predicting, a client trains its model on its own data, and discards the result afterwards.

The simplest way to personalise a shared model, and the last step of FedBABU (Oh et al., ICLR 2022:
``fedbabu+finetune``). The tuned weights are neither kept nor sent: the next round starts from the weights before
tuning. Its batches are not those of the round's training, and its steps are not counted in the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.settings import Count, Positive
from fedloom.core.task import Task


@dataclass(frozen=True)
class FineTune(PredictionStage):
    """Train on the client's own training data before predicting; the run's training is unaffected.

    New clients never take part in training, but they are tuned too.

    Args:
        part: The only part of the model that is tuned; None tunes all of it.
        epochs: How many epochs a client tunes.
        lr: The learning rate; None is that of the round's local work.
    """

    part: str | None = None
    epochs: Count = 1
    lr: Positive | None = None

    @property
    def trains_head(self) -> bool:  # type: ignore[override]  # another part may be the only one that is tuned
        return self.part in (None, "head")

    def check(self, algorithm: Algorithm, task: Task, before: tuple[PredictionStage, ...]) -> None:
        if self.part is not None and self.part not in task.layout.parts:
            raise FedloomError(
                f"finetune cannot tune part '{self.part}', which the model does not have: it has "
                f"{', '.join(task.layout.parts)}."
            )

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        work = replace(cohort.setting.work, epochs=self.epochs, steps=None, partial=0.0)
        if self.lr is not None:
            work = replace(work, lr=self.lr, schedule="constant", lr_decay=1.0, warmup=0)
        return cohort.train(rows, work=work, part=self.part)
