"""Rows as changes, and back: some aggregators compare what clients changed, not where they arrived."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.aggregator import AggregationContext

TINY = 1e-30
"""Smaller factors have few digits in single precision."""


def changes_of(rows: Tensor, context: AggregationContext) -> Tensor:
    """What each client changed: the difference to what it started from, or the row itself if that is a change.

    Args:
        rows: A row per client.
        context: What the server has in this round.
    """
    return rows if context.origin is None else rows - context.origin


def moved_by(change: Tensor, context: AggregationContext) -> Tensor:
    """Where a change leads: from the row that all clients started from, or from the mean of their rows.

    Args:
        change: The change that stands for all clients.
        context: What the server has in this round.
    """
    origin = context.origin
    if origin is None:
        return change
    return change + (origin if origin.dim() == 1 else origin.mean(0))


def clip_norms(changes: Tensor, most: float | Tensor) -> Tensor:
    """Changes with a norm of at most so much: ``change * min(1, most / |change|)``.

    Norms are taken in double precision: no finite change is too large for that.

    Args:
        changes: A change per client.
        most: The bound.
    """
    norms = torch.linalg.vector_norm(changes, dim=1, keepdim=True, dtype=torch.float64)
    factors: Tensor = (most / norms.clamp(min=1e-30)).clamp(max=1)
    if bool((factors < TINY).any()):
        return (changes.double() * factors).to(changes)
    return changes * factors.to(changes)
