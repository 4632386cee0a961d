"""Distances between the rows of clients."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.aggregation_context import AggregationContext

COLUMNS = 8192
"""How many columns are compared at a time."""
ROWS = 128
"""How many rows are compared with those behind them at a time, where there are many products."""
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
    exact = len(rows) * rows.numel() <= EXACT
    for block in torch.split(rows, COLUMNS, dim=1):
        centred = block.double() if exact else block
        centred = centred - centred.mean(0)
        if exact:
            products += centred @ centred.T
            continue
        for first in range(0, len(rows), ROWS):  # above the diagonal only: below it are the same products
            products[first : first + ROWS, first:] += centred[first : first + ROWS] @ centred[first:].T
    if not exact:
        products = products.triu() + products.triu(1).T
    squares = products.diagonal()
    return (squares[:, None] + squares - 2 * products).clamp(min=0).fill_diagonal_(0)


def compared_columns(rows: Tensor, context: AggregationContext) -> Tensor:
    """What of the rows is compared: the trained weights of whole models, without running statistics; else all of it.

    Args:
        rows: A row per client.
        context: What the server has in this round.
    """
    return context.layout.take_trained(rows) if rows.shape[-1] == context.layout.width else rows
