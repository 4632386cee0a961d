"""The weighted mean of clients' rows: how FedAvg makes one row of many."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.core.aggregation_context import AggregationContext
from fedloom.core.aggregator import Aggregator


@dataclass(frozen=True)
class Mean(Aggregator):
    """The weighted mean: ``weights @ rows``, in client order."""

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The weighted mean."""
        return weights @ rows
