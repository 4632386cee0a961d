"""Sybils: one attacker behind many clients, who all send the same update.

Their data have flipped labels (``classes``), and what each of them sends is the mean of all their updates: the attacker
counts as often as it has clients. With ``disguise`` they add noise that cancels over them, so that no two are alike;
it is the same in every round, so that no two histories are alike either.

Fung, Yoon and Beschastnikh, The Limitations of Federated Learning in Sybil Settings, RAID 2020,
https://arxiv.org/abs/1808.04866 (section 8: intelligent perturbation is the disguise).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.attacks.label_flipping import LabelFlipping
from fedloom.core.facts import Fact, Facts
from fedloom.core.seeds import generator
from fedloom.core.settings import NonNegative


@dataclass(frozen=True)
class Sybils(LabelFlipping):
    """Hostile clients with flipped labels who all send the mean of their updates.

    Args:
        disguise: How long the noise is that each adds and that cancels over all, as a multiple of the update.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.UPDATES, Fact.EXCHANGES), "changes the updates that clients send: choose another attack or method"
    )
    least_colluders: ClassVar[int] = 2

    disguise: NonNegative = 0.0

    def collude(self, name: str, changes: Tensor, clients: int) -> Tensor:
        """The mean for all, each with noise of its own that cancels over them."""
        mean = changes.mean(0)
        if not self.disguise or len(changes) < 2:
            return mean.expand_as(changes)
        noise = torch.randn(changes.shape, generator=generator(len(changes), f"disguise of {name}"))
        noise = noise - noise.mean(0)
        lengths = torch.linalg.vector_norm(noise, dim=1, keepdim=True).clamp(min=1e-30)
        disguised: Tensor = mean + self.disguise * mean.norm() * noise / lengths.mean()
        return disguised
