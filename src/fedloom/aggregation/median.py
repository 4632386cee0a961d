"""The coordinate-wise median of clients' rows.

Each coordinate is the median over clients; of an even number it is the mean of the two in the middle. Fewer than half
of the clients cannot move it beyond what honest clients sent. The run's weights are not used: a hostile client chooses
how many samples it claims.

Yin, Chen, Ramchandran and Bartlett, Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML
2018, https://arxiv.org/abs/1803.01498, definition 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.core.aggregator import Aggregator
from fedloom.core.server_context import ServerContext


@dataclass(frozen=True)
class Median(Aggregator):
    """The median of each coordinate; every client counts alike."""

    @property
    def least_clients(self) -> int:
        """Three: the median of two is their mean."""
        return 3

    def __call__(self, rows: Tensor, weights: Tensor, context: ServerContext) -> Tensor:
        """The coordinate-wise median."""
        ordered, half = rows.sort(dim=0).values, len(rows) // 2
        return ordered[half] if len(rows) % 2 else (ordered[half - 1] + ordered[half]) / 2
