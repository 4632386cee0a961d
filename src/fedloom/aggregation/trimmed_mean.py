"""The coordinate-wise trimmed mean of clients' rows.

In each coordinate the largest and the smallest ``floor(share * clients)`` values are left out, and the rest is
averaged. The run's weights are not used: a hostile client chooses how many samples it claims. With ``share = 0`` this
is the mean with equal weights; with the largest possible share it is the median.

It promises: with at most that many hostile rows, no coordinate leaves the range of what honest clients sent.

Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML
2018, https://arxiv.org/abs/1803.01498, definition 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.aggregator import AggregationContext


@dataclass(frozen=True)
class TrimmedMean(ShareRule):
    """The mean of each coordinate without its largest and smallest values; every client counts alike.

    Args:
        share: The share of clients that is left out at either end; below 0.5.
        bucket: How many clients are averaged before the rule sees them.
    """

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The coordinate-wise trimmed mean."""
        out = self.hostile(len(rows))
        return rows.sort(dim=0).values[out : len(rows) - out].mean(0)
