"""The mean: FedAvg's aggregator, and how much each client of a round counts in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.facts import Fact


@dataclass(frozen=True)
class Mean(Aggregator):
    """The weighted mean: ``weights @ rows``, in client order."""

    protects: ClassVar[str] = ""

    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_SUMS,)

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The weighted mean."""
        return weights @ rows


WEIGHTINGS = {
    "samples": "by each client's number of training samples",
    "steps": "by the local gradient steps a client made this round",
    "uniform": "every selected client alike",
}


def weights(by: str, samples: Tensor, steps: Tensor) -> Tensor:
    """The weights of a round's clients; they sum to one."""
    raw = {"samples": samples, "steps": steps, "uniform": torch.ones_like(samples)}[by].double()
    if raw.sum() == 0:  # nobody made a step: the rows are all alike
        raw = torch.ones_like(raw)
    return (raw / raw.sum()).float()
