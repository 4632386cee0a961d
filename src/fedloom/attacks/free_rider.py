"""Free riders: clients that take the model and give nothing.

They send back what they received, so that their update is zero, or noise around it, so that it does not look so:
``change <- noise * |last change of the shared model| / sqrt(width) * N(0, 1)``. They harm by their weight in the mean.

Fraboni, Vidal and Lorenzi, Free-rider Attacks on Model Aggregation in Federated Learning, AISTATS 2021,
https://arxiv.org/abs/2006.11901 (plain and disguised; the disguise there decays over rounds by a fitted power, ours
follows the model's own movement).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message
from fedloom.core.settings import NonNegative

BEFORE, MOVED = "free rider/before", "free rider/moved"


@dataclass(frozen=True)
class FreeRider(Adversary):
    """Hostile clients send the model back that they received, with a disguise of noise.

    Args:
        noise: How long the noise is, as a multiple of what the shared model moved since the rider's last round; with 0
            the update is zero.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.UPDATES, Fact.EXCHANGES), "changes the updates that clients send: choose another attack or method"
    )

    noise: NonNegative = 1.0

    def look_at_message(self, message: Message, cohort: Cohort, hostile: Tensor) -> None:
        """Remember the model, and how far it has moved."""
        if not self.noise or "row" not in message:
            return
        row = cohort.spread(message["row"])
        moved = torch.linalg.vector_norm(row - cohort.kept_rows(BEFORE, row), dim=1, keepdim=True)
        cohort.keep(BEFORE, row, only=hostile)
        cohort.keep(MOVED, moved, only=hostile)

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """Nothing, or noise as long as the model's own movement."""
        moved = cohort.kept_rows(MOVED, changes.new_zeros(len(changes), 1))
        generators = [cohort.generator(f"disguise of {name}", place) for place in range(len(cohort))]
        noise = torch.stack([torch.randn(changes.shape[1:], generator=one) for one in generators])
        disguise: Tensor = self.noise * moved / changes.shape[1] ** 0.5 * noise
        return disguise
