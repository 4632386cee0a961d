"""Recalibration: a client that meets a class it never trained on leans on the global model again.

Where clients keep a body of their own under a shared head, a class that was never in their training data is never
predicted (recall 0), though the shared model knows it. The study of the hybrid methods names the remedy as future
work: average the global and the own body once a new class appears. Here "appears" means that the class is in the
client's validation or test part and not in its training part, and the part that is averaged is whatever the client's
row and the shared row differ in: it needs no names of parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task


@dataclass(frozen=True)
class Recalibrate(PredictionStage):
    """Clients that meet a new class predict with ``mix * global + (1 - mix) * own``; the others as before."""

    mix: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.mix <= 1:
            raise FedloomError(f"mix={self.mix}: the global model's share is between 0 and 1.")

    def check(self, algorithm: Algorithm, task: Task) -> None:
        name = type(algorithm).__name__.lower()
        if not task.classifies:
            raise FedloomError(f"recalibrate waits for new classes, and task {task.name} has none: drop it.")
        if "row" not in algorithm.broadcast(algorithm.start(task), [0]):
            raise FedloomError(
                f"recalibrate needs a whole shared model to lean on, and {name} sends none: drop it, or use a method "
                "that shares a whole model and lets clients keep a part, such as fedhybridavglgdual."
            )
        if type(algorithm).weights_for is Algorithm.weights_for:
            raise FedloomError(
                f"recalibrate mixes the model that a client is sent into its own, and in {name} clients predict with "
                "what they are sent: drop recalibrate."
            )

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        met = cohort.classes("valid") + cohort.classes("test") > 0
        new = (met & (cohort.classes() == 0)).any(dim=1, keepdim=True)
        return torch.where(new, torch.lerp(rows, message["row"], self.mix), rows)
