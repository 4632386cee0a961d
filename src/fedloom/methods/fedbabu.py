"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.methods.partial_sharing import Decoupled


@dataclass(frozen=True)
class FedBABU(Decoupled):
    """Only the body is trained and shared; the head stays as it was drawn, and is tuned when a client predicts.

    Oh, Kim and Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification, ICLR 2022. Its
    personal form is ``fedbabu+finetune``.
    """

    shares_whole_model: ClassVar[bool] = True
    own: ClassVar[str | None] = None

    def train(self, cohort: Cohort, rows: Tensor) -> Tensor:
        return cohort.train(rows, part="body")
