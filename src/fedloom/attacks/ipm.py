"""IPM, inner product manipulation: hostile clients push against the mean of the honest updates.

``change <- -scale * mean(honest changes)``. With a small ``scale`` the update is near the honest ones and passes rules
that look at distances; with m hostile of n and ``scale > (n - m) / m`` the mean points backwards.

Xie, Koyejo and Gupta, Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product Manipulation, UAI 2019,
https://arxiv.org/abs/1903.03936.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.attacks.known_updates import KnowingAttack
from fedloom.core.settings import Positive


@dataclass(frozen=True)
class IPM(KnowingAttack):
    """Hostile clients all send the opposite of the mean of honest updates, times ``scale``.

    Args:
        scale: How many times as long as the mean (the paper's epsilon, 0.1 to 100).
    """

    scale: Positive = 0.5

    def agreed_change(self, honest: Tensor) -> Tensor:
        """The opposite of the mean."""
        return -self.scale * honest.mean(0)
