"""DnC (divide and conquer): clients that stand out along the direction in which rows differ most are left out.

In each iteration some coordinates are drawn; the centred rows are projected on their first right singular vector, and
the clients with the largest squared projections are left out. Who was never left out is averaged. Clients that are very
much farther from the others than usual are left out before a direction is looked for, which the paper does not do.

It promises: with at most as many hostile rows as are left out, and no honest row that far away, every row that is
averaged is at most 100 times as far from the coordinate-wise median as usual, whatever the hostile rows are. Among
those, a direction hides what is orthogonal to it.

Shejwalkar and Houmansadr, Manipulating the Byzantine: Optimizing Model Poisoning Attacks and Defenses for Federated
Learning, NDSS 2021, https://www.ndss-symposium.org/ndss-paper/manipulating-the-byzantine-optimizing-model-poisoning-attacks-and-defenses-for-federated-learning/,
algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.aggregation.any_size import distances_to
from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import Count, Positive

FAR = 100
"""A row so many times as far from the others as usual is left out without looking at directions."""


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
        generator = context.generator("dnc")
        left_out = min(len(rows) - 1, int(self.filtered * self.hostile(len(rows)) + 1e-9))
        near = rows[_near_places(rows, left_out)]
        keep, left_out = torch.ones(len(near), dtype=torch.bool), left_out - (len(rows) - len(near))
        for _ in range(self.iterations if left_out else 0):
            drawn = torch.randperm(rows.shape[1], generator=generator)[: self.coordinates].sort().values
            scores = _standing_out(near[:, drawn])
            keep[scores.argsort(descending=True, stable=True)[:left_out]] = False
        return near[keep].mean(0) if bool(keep.any()) else near.mean(0)


def _near_places(rows: Tensor, most: int) -> Tensor:
    """The places of rows that are not ``FAR`` times as far from the coordinate-wise median as usual, in client order.

    One row of 1e8 has a direction to itself, along which a row of 1e3 beside it does not stand out. So the farthest,
    at most as many as are left out in all, go before a direction is looked for.
    """
    distances = distances_to(rows.median(0).values, rows)
    farthest = distances.argsort(descending=True, stable=True)[:most]
    near = torch.ones(len(rows), dtype=torch.bool)
    near[farthest[distances[farthest] > FAR * distances.median()]] = False
    return near.nonzero().flatten()


def _standing_out(rows: Tensor) -> Tensor:
    """The squared projection of each row on the first right singular vector of the centred rows.

    It is the first eigenvector of the small matrix of products, times its eigenvalue.
    """
    centred = (rows - rows.mean(0)).double()
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    projections: Tensor = vectors[:, -1].square() * values[-1]
    return projections
