"""Min-max and min-sum: the update that is as harmful as it can be without lying farther out than honest ones.

``change <- mean + gamma * direction`` with the largest ``gamma`` for which

- *min-max*: its largest distance to an honest update is at most the largest distance between two honest updates;
- *min-sum*: the sum of its squared distances to all honest updates is at most the largest such sum of an honest one.

The direction is the opposite of the coordinates' standard deviation (``std``), of the mean (``unit``), or of its signs
(``sign``), the paper's three; ``std`` is the strongest there. Both conditions are quadratic in ``gamma``, so the
largest ``gamma`` is the root of a quadratic; the paper searches for it.

Shejwalkar and Houmansadr, Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for Federated
Learning, NDSS 2021, https://www.ndss-symposium.org/ndss-paper/manipulating-the-byzantine-optimizing-model-poisoning-attacks-and-defenses-for-federated-learning/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedloom.attacks.known_updates import KnowingAttack


@dataclass(frozen=True)
class MinMax(KnowingAttack):
    """Hostile clients send the most harmful update whose distances to honest ones are not larger than among these.

    Args:
        direction: ``std``, ``unit`` or ``sign``: where the update goes from the mean.
    """

    direction: Literal["std", "unit", "sign"] = "std"

    @property
    def least_colluders(self) -> int:  # type: ignore[override]  # two own updates have a distance
        """Two, where they know only their own updates."""
        return 2 if self.knows == "own" else 1

    def agreed_change(self, honest: Tensor) -> Tensor:
        """The mean, and as far from it as the distances allow."""
        rows = honest.double()
        mean = rows.mean(0)
        away = harmful_direction(rows, self.direction)
        return mean + self.largest_gamma(rows, mean, away) * away

    def largest_gamma(self, rows: Tensor, mean: Tensor, away: Tensor) -> Tensor:
        """How far the update may go.

        Args:
            rows: The honest changes.
            mean: Their mean.
            away: The direction.
        """
        most = torch.cdist(rows, rows).max().square()
        return roots(away.square().sum(), 2 * (mean - rows) @ away, (mean - rows).square().sum(1) - most).min()


@dataclass(frozen=True)
class MinSum(MinMax):
    """Hostile clients send the most harmful update whose distances to honest ones sum to at most an honest one's."""

    def largest_gamma(self, rows: Tensor, mean: Tensor, away: Tensor) -> Tensor:
        """How far the update may go: the sum over honest ones is ``n |gamma away|^2 + sum |mean - row|^2``."""
        most = torch.cdist(rows, rows).square().sum(1).max()
        own = (mean - rows).square().sum()
        return roots(len(rows) * away.square().sum(), torch.zeros((), dtype=rows.dtype), own - most)


def roots(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The larger root of ``a g^2 + b g + c`` where c is not positive; 0 where there is no direction to go."""
    if not bool(a > 0):
        return torch.zeros_like(c)
    root: Tensor = (-b + (b.square() - 4 * a * c).clamp(min=0).sqrt()) / (2 * a)
    return root.clamp(min=0)


def harmful_direction(rows: Tensor, kind: str) -> Tensor:
    """Where a harmful update goes from the mean of honest ones.

    Args:
        rows: The honest changes.
        kind: ``std``, ``unit`` or ``sign``.
    """
    mean = rows.mean(0)
    if kind == "std":
        return -rows.std(0, correction=0)
    return -mean.sign() if kind == "sign" else -mean / mean.norm().clamp(min=1e-30)
