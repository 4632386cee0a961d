"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.methods.partial_sharing import Decoupled


@dataclass(frozen=True)
class FedRep(Decoupled):
    """A shared body under personal heads: each round first the head alone, then the body alone.

    Collins et al., Exploiting Shared Representations for Personalized Federated Learning, ICML 2021. The body is
    trained as long as the run's local work says, the head for ``head_epochs``.
    """

    head_epochs: int = 1

    def __post_init__(self) -> None:
        if self.head_epochs < 0:
            raise FedloomError(f"head_epochs={self.head_epochs}: it must not be negative.")

    def train(self, cohort: Cohort, rows: Tensor) -> Tensor:
        if self.head_epochs:
            work = replace(cohort.setting.work, epochs=self.head_epochs, steps=None)
            rows = cohort.train(rows, part="head", work=work)
        return cohort.train(rows, part="body")
