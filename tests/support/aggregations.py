"""Aggregators on rows that can be written down."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.server_context import ServerContext
from support.clusters import clients_in_a_plane, server_context


@cache
def _server(number: int) -> ServerContext:
    return server_context(clients_in_a_plane(3), number)


def aggregation_context(number: int = 1, **more: object) -> AggregationContext:
    """What an aggregator has in a round; ``more`` is what is known of the rows."""
    return AggregationContext.of(_server(number), **more)


def aggregate(
    aggregator: Aggregator,
    rows: Tensor | list[list[float]],
    weights: list[float] | None = None,
    number: int = 1,
    **more: object,
) -> Tensor:
    """The row that an aggregator makes in a round; ``more`` is what the context says of the rows."""
    found = torch.as_tensor(rows, dtype=torch.float32)
    shares = torch.full((len(found),), 1 / len(found)) if weights is None else torch.tensor(weights)
    return aggregator(found, shares, aggregation_context(number, **more))


def honest_rows(clients: int, width: int, seed: int) -> Tensor:
    """Rows drawn around one point."""
    return torch.randn(clients, width, generator=torch.Generator().manual_seed(seed))
