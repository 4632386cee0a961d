"""The coordinate-wise trimmed mean of clients' rows.

In each coordinate the largest and the smallest ``floor(share * clients)`` values are left out, and the rest is
averaged. The run's weights are not used: a hostile client chooses how many samples it claims. With ``share = 0`` this
is the mean with equal weights; with the largest possible share it is the median.

Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML
2018, https://arxiv.org/abs/1803.01498, definition 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from fedloom.core.aggregator import Aggregator
from fedloom.core.errors import FedloomError
from fedloom.core.server_context import ServerContext


@dataclass(frozen=True)
class TrimmedMean(Aggregator):
    """The mean of each coordinate without its largest and smallest values; every client counts alike.

    Args:
        share: The share of clients that is left out at either end; below 0.5.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise FedloomError(
                f"trimmedmean: share={self.share}: the share left out at either end must be at least 0 and below 0.5."
            )

    @property
    def least_clients(self) -> int:
        """As many as make the share at least one client."""
        return math.ceil(1 / self.share - 1e-9) if self.share else 1

    def __call__(self, rows: Tensor, weights: Tensor, context: ServerContext) -> Tensor:
        """The coordinate-wise trimmed mean."""
        out = int(self.share * len(rows) + 1e-9)
        return rows.sort(dim=0).values[out : len(rows) - out].mean(0)
