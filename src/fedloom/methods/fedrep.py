"""FedRep: a shared body under personal heads; each round trains the head first, then the body.

``head_epochs`` epochs on the head with the body fixed, then the run's local work on the body with the head fixed; then
``body <- sum_k p_k body_k``, and the head stays with its client.

Collins et al., Exploiting Shared Representations for Personalized Federated Learning, ICML 2021,
https://arxiv.org/abs/2102.07078.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact
from fedloom.core.local_work import LocalWork
from fedloom.core.settings import WholeNumber
from fedloom.methods.partial_sharing import PartialSharing


@dataclass(frozen=True)
class FedRep(PartialSharing):
    """A shared body under personal heads: each round trains the head alone, then the body alone.

    Args:
        head_epochs: Epochs on the head; the body trains as long as the run's local work says.
    """

    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_TRAINING,)

    head_epochs: WholeNumber = 1

    def steps_per_turn(self, work: LocalWork, samples: int) -> int:
        return work.for_epochs(self.head_epochs).steps_for(samples) + work.steps_for(samples)

    def train(self, cohort: Cohort, rows: Tensor) -> Tensor:
        if self.head_epochs:
            rows = cohort.train(rows, part="head", work=cohort.setting.work.for_epochs(self.head_epochs))
        return cohort.train(rows, part="body")
