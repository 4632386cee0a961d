"""The coordinate-wise median of clients' rows.

Each coordinate is the median over clients; of an even number it is the mean of the two in the middle. The run's weights
are not used: a hostile client chooses how many samples it claims.

It promises: fewer than half of the clients cannot move any coordinate out of the range of what honest clients sent.

Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML
2018, https://arxiv.org/abs/1803.01498, definition 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.aggregation.robust_rule import RobustRule
from fedloom.core.aggregator import AggregationContext


def coordinate_median(rows: Tensor) -> Tensor:
    """The median of each coordinate; of an even number of rows the mean of the two in the middle.

    Args:
        rows: A row per client.
    """
    ordered, half = rows.sort(dim=0).values, len(rows) // 2
    return ordered[half] if len(rows) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True)
class Median(RobustRule):
    """The median of each coordinate; every client counts alike.

    Args:
        bucket: How many clients are averaged before the rule sees them.
    """

    @property
    def least_clients(self) -> int:
        """Three buckets: the median of two rows is their mean."""
        return 2 * self.bucket + 1

    def hostile(self, rows: int) -> int:
        """Fewer than half of the rows.

        Args:
            rows: How many rows there are.
        """
        return max(0, rows - 1) // 2

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The coordinate-wise median."""
        return coordinate_median(rows)
