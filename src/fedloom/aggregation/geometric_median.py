"""The geometric median: the row with the smallest sum of distances to all rows.

Found by Weiszfeld's iteration, ``v <- sum_i x_i / |x_i - v| / sum_i 1 / |x_i - v|``, with distances of at least
``smoothing``. Fewer than half of the clients cannot lead it away arbitrarily far.

Pillutla, Kakade and Harchaoui, Robust Aggregation for Federated Learning, IEEE Transactions on Signal Processing 2022,
https://arxiv.org/abs/1912.13445, algorithm 2 (which uses the clients' weights; here every client counts alike).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.aggregation.robust_rule import RobustRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import Count, NonNegative, Positive


@dataclass(frozen=True)
class GeometricMedian(RobustRule):
    """The row with the smallest sum of distances to all rows; every client counts alike.

    Args:
        iterations: The most steps of Weiszfeld's iteration.
        tolerance: It ends when the sum of distances falls by less than this share of it.
        smoothing: The smallest distance that is divided by, as a share of the mean distance.
        bucket: How many clients are averaged before the rule sees them.
    """

    iterations: Count = 100
    tolerance: NonNegative = 1e-6
    smoothing: Positive = 1e-6

    @property
    def least_clients(self) -> int:
        """Three buckets: of two rows every point between them is a median."""
        return 2 * self.bucket + 1

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """Weiszfeld's iteration from the mean."""
        median, before = rows.mean(0), float("inf")
        for _ in range(self.iterations):
            distances = (rows - median).norm(dim=1).double()
            total = float(distances.sum())
            if total == 0 or before - total <= self.tolerance * total:
                break
            weights = 1 / distances.clamp(min=self.smoothing * total / len(rows))
            median, before = (weights / weights.sum()).to(rows) @ rows, total
        return median
