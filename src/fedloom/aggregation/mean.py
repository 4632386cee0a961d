"""The weighted mean of clients' rows: how FedAvg makes one row of many."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.aggregation_context import AggregationContext
from fedloom.core.aggregator import Aggregator
from fedloom.core.facts import Fact


@dataclass(frozen=True)
class Mean(Aggregator):
    """The weighted mean: ``weights @ rows``, in client order."""

    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The weighted mean."""
        return weights @ rows
