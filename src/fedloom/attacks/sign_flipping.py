"""Sign flipping: hostile clients reply with the opposite of their update.

``change <- -scale * change``. The simplest attack on an average that needs no knowledge of other clients.

Li, Xu, Chen, Giannakis and Ling, RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed Learning from
Heterogeneous Datasets, AAAI 2019, https://arxiv.org/abs/1811.03761.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Positive


@dataclass(frozen=True)
class SignFlipping(Adversary):
    """Hostile clients reply with the opposite of their update, times ``scale``.

    Args:
        scale: How many times as large the opposite update is.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.UPDATES, Fact.EXCHANGES), "changes the updates that clients send: choose another attack or method"
    )

    scale: Positive = 1.0

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """The opposite changes."""
        return -self.scale * changes
