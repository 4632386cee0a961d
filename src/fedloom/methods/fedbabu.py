"""FedBABU: only the body is trained and shared; the head stays at its initial values.

``body <- sum_k p_k body_k``. A client tunes the head when it predicts: the personal form is ``fedbabu+finetune``.

Oh, Kim and Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022,
https://arxiv.org/abs/2106.06042. It has no settings. The authors' code does not weight clients; means here are weighted
as the run says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact
from fedloom.methods.partial_sharing import PartialSharing


@dataclass(frozen=True)
class FedBABU(PartialSharing):
    """Only the body is trained and shared; the head stays at its initial values."""

    grants: ClassVar[Collection[Fact]] = (
        Fact.WHOLE_MODEL,
        Fact.ONLY_TRAINING,
    )
    own: ClassVar[str | None] = None

    def train(self, cohort: Cohort, rows: Tensor) -> Tensor:
        return cohort.train(rows, part="body")
