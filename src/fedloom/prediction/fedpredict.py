"""FedPredict: a client predicts with a mix of the global model and the model it last trained; training is unchanged.

Capanema et al., FedPredict: Combining Global and Local Parameters in the Prediction Step of Federated Learning,
DCOSS-IoT 2023. In round t of T, ``nt`` rounds after a client last trained, the global model's share is
``gw = exp(-1/nt - t/T)``: it grows with the age of the local model and falls as the run proceeds. FedPredict-Dynamic
(2024) multiplies the exponent by the similarity of the client's classes then and now. The equations are right; the
paper's text swaps the names of their two terms. The paper leaves some cases open. Here a client that trained in this
round predicts with its own model (nt = 0), and one that never trained predicts with the global model. Running
statistics are not mixed: they are the client's own. The mix is never stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Kept
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task
from fedloom.prediction.last_local_model import LastLocalModel

ROW, ROUND, CLASSES = "fedpredict/row", "fedpredict/round", "fedpredict/classes"
"""Client state: the row it last trained, the round of that training, and its class counts in that round."""


def global_weight(t: int, rounds: int, nt: Tensor, trained: Tensor, similarity: Tensor | float = 1.0) -> Tensor:
    """The global model's share in each client's mix in round ``t`` of ``rounds``, ``nt`` rounds after it trained."""
    freshness, evolution = 1 / nt.double(), t / rounds
    weight = torch.exp((-freshness - evolution) * similarity)
    weight = torch.where(nt == 0, 0.0, weight)
    return torch.where(trained, weight, 1.0)


@dataclass(frozen=True)
class FedPredict(PredictionStage):
    """Predict with ``gw * global + (1 - gw) * local``; gw depends on the local model's age and the run's progress.

    Capanema et al., DCOSS-IoT 2023.

    Args:
        dynamic: Use FedPredict-Dynamic (2024), for drifting data: ``gw = exp((-1/nt - t/T) * s)`` where s is the cosine
            similarity, rounded to 0.1, of the class shares in the client's training data when it last trained and now.
            With s = 1 this is FedPredict, with s = 0 the global model.
    """

    needs: ClassVar[Facts] = {
        Fact.SHARED_PREDICTION: "mixes a global model into a client's own: drop fedpredict, or use it with a method "
        "that shares its model, such as fedavg",
        **dict.fromkeys(
            (Fact.EXCHANGES, Fact.TRAINS_LOCALLY),
            "mixes in the model that a client trained last: drop fedpredict, or use it with a method whose clients "
            "train, such as fedavg",
        ),
    }
    breaks: ClassVar[Facts] = {Fact.ANY_LENGTH: "depends on how many rounds there are"}
    keeps: ClassVar[Kept] = {
        ROW: "the model that the site trained last",
        ROUND: "the round of that training",
        CLASSES: "its samples of each class at that time",
    }

    dynamic: bool = False

    def check(self, algorithm: Algorithm, task: Task, before: tuple[PredictionStage, ...]) -> None:
        if any(isinstance(stage, LastLocalModel) for stage in before):
            raise FedloomError(
                "fedpredict mixes the global model into a client's last one, and lastlocalmodel before it has already "
                "replaced the global model by that: drop one of the two."
            )
        if self.dynamic and not task.classifies:
            raise FedloomError(
                f"fedpredict with dynamic=true compares the classes of a client's data, but task {task.name} has no "
                "classes: use dynamic=false."
            )

    def after_update(self, cohort: Cohort) -> None:
        if cohort.after is None or cohort.round == 0:  # training before round 1 (a prelude) does not count
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
        """The similarity of each client's classes at its last training and now, between 0 and 1."""
        if not self.dynamic:
            return 1.0
        now = cohort.classes()
        then = cohort.kept_rows(CLASSES, now)
        return torch.cosine_similarity(now.double(), then.double(), dim=1).round(decimals=1)
