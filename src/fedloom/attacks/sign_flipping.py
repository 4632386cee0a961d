"""Sign flipping: hostile clients reply with the opposite of their update.

``change <- -scale * change``. The simplest attack on an average that needs no knowledge of other clients.

Li, Xu, Chen, Giannakis and Ling, RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed Learning from
Heterogeneous Datasets, AAAI 2019, https://arxiv.org/abs/1811.03761.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.settings import Positive
from fedloom.core.task import Task


@dataclass(frozen=True)
class SignFlipping(Adversary):
    """Hostile clients reply with the opposite of their update, times ``scale``.

    Args:
        clients: The numbers of the hostile clients; by default they are drawn by the run's seed.
        fraction: The share of hostile clients if ``clients`` does not name them, rounded up.
        scale: How many times as large the opposite update is.
    """

    scale: Positive = 1.0

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse methods whose clients send no update."""
        if not algorithm.sends_updates:
            name = type(algorithm).__name__.lower()
            raise FedloomError(f"{name} sends no update whose sign could be flipped: choose another attack or method.")

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """The opposite changes."""
        return -self.scale * changes
