"""FedPredict: a client predicts with a mix of the global model and the one it last trained, and trains as ever.

Capanema et al., FedPredict: Combining Global and Local Parameters in the Prediction Step of Federated Learning,
DCOSS-IoT 2023. In round t of T, ``nt`` rounds after a client last trained, the global model's share is
``gw = exp(-1/nt - t/T)``: the older the local model, the more, and the further the run, the less. FedPredict-Dynamic
(2024) multiplies the exponent by how alike the client's classes are then and now. The equations are right; the paper's
text swaps the names of their two terms. What they leave open is settled here: who trained in this round predicts with
its own model (nt = 0), who never trained with the global one, running statistics are not mixed but the client's own,
and the mix is never stored.
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

ROW, ROUND, CLASSES = "fedpredict/row", "fedpredict/round", "fedpredict/classes"
"""What a client keeps: the row it last trained, the round in which it did, and the classes it then had."""


def global_weight(t: int, rounds: int, nt: Tensor, trained: Tensor, similarity: Tensor | float = 1.0) -> Tensor:
    """The global model's share in each client's mix in round ``t`` of ``rounds``, ``nt`` rounds after it trained."""
    freshness, evolution = 1 / nt.double(), t / rounds
    weight = torch.exp((-freshness - evolution) * similarity)
    weight = torch.where(nt == 0, 0.0, weight)
    return torch.where(trained, weight, 1.0)


@dataclass(frozen=True)
class FedPredict(PredictionStage):
    """Predict with ``gw * global + (1 - gw) * local``; gw follows the local model's age and the run's progress.

    Capanema et al., DCOSS-IoT 2023. ``dynamic`` is FedPredict-Dynamic (2024) for data that drift:
    ``gw = exp((-1/nt - t/T) * s)`` with s the cosine similarity, to one decimal, of the class shares in the client's
    training data when it last trained and now. With s = 1 this is FedPredict, with s = 0 the global model.
    """

    dynamic: bool = False

    def check(self, algorithm: Algorithm, task: Task) -> None:
        name = type(algorithm).__name__.lower()
        if algorithm.has_personal_models:
            raise FedloomError(
                f"fedpredict mixes a global model into a client's own, and {name} gives clients models that are wholly "
                "their own: drop fedpredict, or use it with a method that shares its model, such as fedavg."
            )
        if not algorithm.communicates or not algorithm.trains_locally:
            raise FedloomError(
                f"fedpredict mixes in the model that a client last trained, and in {name} clients train none: drop "
                "fedpredict, or use it with a method whose clients train, such as fedavg."
            )
        if self.dynamic and not task.classifies:
            raise FedloomError(
                f"fedpredict's dynamic form compares the classes of a client's data, and task {task.name} has none: "
                "use dynamic=false."
            )

    def after_update(self, cohort: Cohort) -> None:
        if cohort.after is None or cohort.round == 0:  # what comes before the first round is no training of the method
            return
        cohort.keep(ROW, cohort.after)
        cohort.keep(ROUND, torch.full((len(cohort),), cohort.round))
        if self.dynamic:
            cohort.keep(CLASSES, cohort.classes())

    def weights(self, rows: Tensor, message: Message, cohort: Cohort) -> Tensor:
        t, trained, columns = cohort.round, cohort.has(ROW), cohort.task.layout.trained_columns
        nt = t - cohort.kept_rows(ROUND, torch.zeros(len(cohort), dtype=torch.int64))
        weight = global_weight(t, cohort.setting.rounds, nt, trained, self.similarity(cohort))
        gw = weight.float().unsqueeze(1)
        local = cohort.kept_rows(ROW, rows)
        mixed = gw * rows + (1 - gw) * local
        if columns is not None:
            mixed = torch.where(columns, mixed, local)
        return torch.where(gw == 1, rows, mixed)

    def similarity(self, cohort: Cohort) -> Tensor | float:
        """How alike each client's classes are at its last training and now, between 0 and 1."""
        if not self.dynamic:
            return 1.0
        now = cohort.classes()
        then = cohort.kept_rows(CLASSES, now)
        return torch.cosine_similarity(now.double(), then.double(), dim=1).round(decimals=1)
