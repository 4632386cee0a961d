"""Rows of any finite size: what a robust rule does before it computes with them.

A hostile client may send numbers up to 3e38. Their squares and sums overflow, and beside them the differences between
honest rows are lost to rounding: a rule that starts from the mean of the rows, or compares distances to it, is blinded.
So no rule starts from a mean, and rows beyond any honest size are cut first. The measure is a median of the rows, which
fewer than half of the clients cannot move beyond what honest clients sent.
"""

from __future__ import annotations

import torch
from torch import Tensor

BEYOND = 1e9
"""A row whose largest number is so many times the usual one is not honest, whatever data its client has."""
SQUARABLE = 1e15
"""Rows with larger numbers are computed with in double precision: their squares overflow in single precision."""


def cut_sizes(rows: Tensor) -> Tensor:
    """The rows without numbers that arithmetic cannot hold; where no row is that large, the rows themselves.

    A row whose largest number is more than ``BEYOND`` times the median of all rows' is scaled down to that. Rows whose
    usual numbers overflow already are returned in double precision.

    Args:
        rows: A row per client.
    """
    if not rows.numel():
        return rows
    largest = torch.linalg.vector_norm(rows, torch.inf, dim=1)
    usual = float(largest.median()) or 1.0  # where most rows are nothing but zeros, no size is usual
    far = largest > BEYOND * usual
    if bool(far.any()):
        rows = rows.clone()
        rows[far] = rows[far] / largest[far, None] * (BEYOND * usual)  # one factor for both would underflow
    return rows.double() if min(float(largest.max()), BEYOND * usual) > SQUARABLE else rows


def as_finite(row: Tensor, like: Tensor) -> Tensor:
    """A row in the type of others, with numbers that this type can hold.

    Args:
        row: A row, which may be in double precision.
        like: Rows of the type.
    """
    if row.dtype == like.dtype:
        return row
    most = torch.finfo(like.dtype).max
    return row.clamp(-most, most).to(like.dtype)


def distances_to(centre: Tensor, rows: Tensor) -> Tensor:
    """The distance of each row to a point, in double precision.

    Args:
        centre: The point.
        rows: A row per client.
    """
    found: Tensor = torch.linalg.vector_norm(rows - centre, dim=1, dtype=torch.float64)
    return found
