"""Gaussian noise: hostile clients send noise in the place of their update.

``change <- scale * |change| / sqrt(width) * N(0, 1)``: noise about ``scale`` times as long as the honest update, so
that its size gives nothing away at ``scale = 1``.

Fang, Cao, Jia and Gong, Local Model Poisoning Attacks to Byzantine-Robust Federated Learning, USENIX Security 2020,
https://arxiv.org/abs/1911.11815 (there noise replaces the model).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.adversary import Adversary
from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Positive


@dataclass(frozen=True)
class GaussianNoise(Adversary):
    """Hostile clients reply with noise that is ``scale`` times as long as their update.

    Args:
        scale: How many times as long as the update the noise is.
    """

    needs: ClassVar[Facts] = dict.fromkeys(
        (Fact.UPDATES, Fact.EXCHANGES), "changes the updates that clients send: choose another attack or method"
    )

    scale: Positive = 1.0

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """Noise as long as the changes, times ``scale``; each client draws its own."""
        generators = [cohort.generator(f"noise of an attack on {name}", place) for place in range(len(cohort))]
        noise = torch.stack([torch.randn(changes.shape[1:], generator=one) for one in generators])
        lengths = torch.linalg.vector_norm(changes, dim=1, keepdim=True)
        longer: Tensor = self.scale * lengths / changes.shape[1] ** 0.5 * noise
        return longer
