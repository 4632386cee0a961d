"""Recalibration: a client whose training data lack a class mixes the global model into its own.

A client with its own body under a shared head never predicts a class that was not in its training data (recall 0),
although the shared model can. The study of the hybrid methods proposes a remedy as future work: average the global and
the client's own body once a new class appears. When one appears, its labels are not known yet: a client knows the
classes of the task and those that it trained on. So all clients that lack a class are mixed, at all times. All weights
in which the client's row differs from the shared row are mixed, so the model needs no named parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, holds
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.settings import Share
from fedloom.core.task import Task


@dataclass(frozen=True)
class Recalibrate(PredictionStage):
    """Clients that lack a class in training predict with ``mix * global + (1 - mix) * own``; others are unchanged.

    Args:
        mix: The global model's share.
    """

    mix: Share = 0.5

    def check(self, algorithm: Algorithm, task: Task, before: tuple[PredictionStage, ...]) -> None:
        name = type(algorithm).__name__.lower()
        if not task.classifies:
            raise FedloomError(f"recalibrate looks for missing classes, but task {task.name} has no classes: drop it.")
        if "row" not in algorithm.broadcast(algorithm.start(task), [0]):
            raise FedloomError(
                f"recalibrate needs a whole shared model to mix in, but {name} sends none: drop recalibrate, or use a "
                "method that shares a whole model and lets clients keep a part, such as fedhybridavglgdual."
            )
        if not before and not holds(Fact.OWN_PREDICTION, algorithm):
            raise FedloomError(
                f"recalibrate mixes the model a client receives into its own, but in {name} clients predict with the "
                "model they receive: drop recalibrate, or put a stage before it that changes the model."
            )

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        lacking = (cohort.classes() == 0).any(dim=1, keepdim=True)
        return torch.where(lacking, torch.lerp(rows, message["row"], self.mix), rows)
