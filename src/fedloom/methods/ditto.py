"""Ditto: FedAvg, and beside it a personal model per client that is held near the shared one.

The personal model v minimises ``F_k(v) + lam/2 * ||v - w||^2``, where w is the received shared model. v stays with its
client, which predicts with it; it starts as the first w that the client receives. The shared model is FedAvg's to the
byte. With lam = 0 the personal models are those of local training.

Li, Hu, Beirami and Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021,
https://arxiv.org/abs/2012.04221.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Kept
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.pull import Affine
from fedloom.core.settings import Count, NonNegative
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg, and beside it a personal model ``v`` per client that minimises ``F_k(v) + lam/2 * ||v - w||^2``.

    Args:
        lam: Weight of the pull towards the shared model.
        personal_epochs: Epochs of the personal model per round; None trains it as long as the shared one.
    """

    breaks: ClassVar[Facts] = {Fact.SHARED_PREDICTION: "gives every client an entirely personal model"}
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_TRAINING,)
    keeps: ClassVar[Kept] = {"v": "the site's personal model"}

    lam: NonNegative = 0.1
    personal_epochs: Count | None = None

    def steps_per_turn(self, work: LocalWork, samples: int) -> int:
        return work.steps_for(samples) + work.for_epochs(self.personal_epochs).steps_for(samples)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        shared = super().client_update(cohort, message)
        work, near = cohort.setting.work.for_epochs(self.personal_epochs), Affine(lambda v, _, w: self.lam * (v - w))
        v, w = self.weights_for(message, cohort), cohort.spread(message["row"])
        cohort.keep("v", cohort.train(v, work=work, pull=near, given={"w": w}))
        return shared

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("v", cohort.spread(message["row"]))
