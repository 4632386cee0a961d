"""DnC (divide and conquer): clients that stand out along the direction in which rows differ most are left out.

In each iteration some coordinates are drawn; the centred rows are projected on their first right singular vector, and
the clients with the largest squared projections are left out. Who was never left out is averaged.

Shejwalkar and Houmansadr, Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for Federated
Learning, NDSS 2021, https://www.ndss-symposium.org/ndss-paper/manipulating-the-byzantine-optimizing-model-poisoning-attacks-and-defenses-for-federated-learning/,
algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import Count, Positive


@dataclass(frozen=True)
class DnC(ShareRule):
    """The mean of the rows that do not stand out along the direction in which all differ most.

    Args:
        share: The share of the clients that may be hostile.
        filtered: How many are left out, as a multiple of the hostile ones.
        iterations: How often coordinates are drawn.
        coordinates: How many coordinates are drawn.
        bucket: How many clients are averaged before the rule sees them.
    """

    filtered: Positive = 1.0
    iterations: Count = 1
    coordinates: Count = 10_000

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The mean of the clients that no iteration left out."""
        keep, generator = torch.ones(len(rows), dtype=torch.bool), context.generator("dnc")
        left_out = min(len(rows) - 1, int(self.filtered * self.hostile(len(rows)) + 1e-9))
        for _ in range(self.iterations if left_out else 0):
            drawn = torch.randperm(rows.shape[1], generator=generator)[: self.coordinates].sort().values
            scores = _standing_out(rows[:, drawn])
            keep[scores.argsort(descending=True, stable=True)[:left_out]] = False
        return rows[keep].mean(0) if bool(keep.any()) else rows.mean(0)


def _standing_out(rows: Tensor) -> Tensor:
    """The squared projection of each row on the first right singular vector of the centred rows.

    It is the first eigenvector of the small matrix of products, times its eigenvalue.
    """
    centred = (rows - rows.mean(0)).double()
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    projections: Tensor = vectors[:, -1].square() * values[-1]
    return projections
