"""Distances between the rows of clients."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.aggregation_context import AggregationContext

COLUMNS = 8192
"""How many columns are compared at a time."""
EXACT = 1_000_000_000
"""Up to so many products they are taken in double precision: equal distances are then equal numbers."""


def squared_distances(rows: Tensor) -> Tensor:
    """The squared distance of each pair of rows, in double precision.

    ``|a - b|² = |a|² + |b|² - 2ab`` over a block of columns at a time, each centred first, so that little is lost where
    rows lie close together and far from the origin.

    Args:
        rows: A row per client.
    """
    products = rows.new_zeros(len(rows), len(rows), dtype=torch.float64)
    precision = torch.float64 if len(rows) * rows.numel() <= EXACT else rows.dtype
    for block in torch.split(rows, COLUMNS, dim=1):
        centred = block.to(precision)
        centred = centred - centred.mean(0)
        products += centred @ centred.T
    squares = products.diagonal()
    return (squares[:, None] + squares - 2 * products).clamp(min=0).fill_diagonal_(0)


def compared_columns(rows: Tensor, context: AggregationContext) -> Tensor:
    """What of the rows is compared: the trained weights of whole models, without running statistics; else all of it.

    Args:
        rows: A row per client.
        context: What the server has in this round.
    """
    return context.layout.take_trained(rows) if rows.shape[-1] == context.layout.width else rows
