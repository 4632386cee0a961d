"""The weighted mean of clients' rows: how FedAvg makes one row of many."""

from __future__ import annotations

from torch import Tensor


def weighted_mean(rows: Tensor, weights: Tensor) -> Tensor:
    """``weights @ rows``, in client order."""
    return weights @ rows
