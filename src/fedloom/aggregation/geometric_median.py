"""The geometric median: the row with the smallest sum of distances to all rows.

Found by Weiszfeld's iteration, ``v <- sum_i x_i / |x_i - v| / sum_i 1 / |x_i - v|``, from the coordinate-wise median.
Every row pulls with the same force, however far away it is, so a row is no stronger for being larger; where the
iteration starts and when it ends must not depend on far rows either.

It promises: with f hostile rows of n, f < n / 2, the result is within ``2 (n - f) / (n - 2 f)`` times the largest
distance of an honest row from any point, of that point, whatever the hostile rows are.

Pillutla, Kakade and Harchaoui, Robust Aggregation for Federated Learning, IEEE Transactions on Signal Processing 2022,
https://arxiv.org/abs/1912.13445, algorithm 2 (which uses the clients' weights; here every client counts alike).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.aggregation.any_size import distances_to
from fedloom.aggregation.robust_rule import RobustRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import Count, NonNegative, Positive


@dataclass(frozen=True)
class GeometricMedian(RobustRule):
    """The row with the smallest sum of distances to all rows; every client counts alike.

    Args:
        iterations: The most steps of Weiszfeld's iteration.
        tolerance: It ends when the square of a step is less than this share of the square of the median distance.
        smoothing: A row that is closer than this share of the median distance counts as the point itself.
        bucket: How many clients are averaged before the rule sees them.
    """

    iterations: Count = 100
    tolerance: NonNegative = 1e-6
    smoothing: Positive = 1e-6

    @property
    def least_clients(self) -> int:
        """Three buckets: of two rows every point between them is a median."""
        return 2 * self.bucket + 1

    def hostile(self, rows: int) -> int:
        """Fewer than half of the rows.

        Args:
            rows: How many rows there are.
        """
        return max(0, rows - 1) // 2

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """Weiszfeld's iteration from the coordinate-wise median."""
        median = rows.median(0).values  # of an even number the lower one: it only has to be amid the honest rows
        for _ in range(self.iterations):
            distances = distances_to(median, rows)
            usual = float(distances.median())
            here = distances <= self.smoothing * usual
            pulls = torch.where(here, 0.0, 1 / distances)
            if not bool(pulls.any()):
                break
            aim = (pulls / pulls.sum()).to(rows) @ rows
            step = (aim - median) * _share_of_step(aim - median, pulls, int(here.sum()))
            median = median + step
            if float(step.double().square().sum()) <= self.tolerance * usual**2:
                break
        return median


def _share_of_step(step: Tensor, pulls: Tensor, here: int) -> float:
    """How much of a step is taken from a point where some rows lie: none if they outweigh the pull of the others.

    Vardi and Zhang, The multivariate L1-median and associated data depth, PNAS 2000.
    """
    force = float(pulls.sum() * torch.linalg.vector_norm(step, dtype=torch.float64))
    return 1.0 if not here else max(0.0, 1 - here / force) if force else 0.0
