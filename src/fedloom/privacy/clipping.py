"""Clipping rows to a norm, so that the bound that accounting counts on holds for the numbers that are added.

Norms are computed in double precision: in single precision the norm of ten million numbers may be 0.4 % too small, and
the clipped row that much too large. Factors are rounded down by more than what rounding the products can add.
"""

from __future__ import annotations

import torch
from torch import Tensor

DOWN = 1 - 2.0**-22
"""Two roundings to single precision add at most 2^-23."""
SMALL = 2.0**-100
"""Smaller factors may not have all of their digits in single precision: a power of two is taken out of them first."""


def norms_of(rows: Tensor) -> Tensor:
    """The norm of each row, in double precision.

    Args:
        rows: A row per client.
    """
    found: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return found


def clip_rows(rows: Tensor, most: float) -> Tensor:
    """Rows with a norm of at most ``most``: longer ones are shortened, and one that is not finite is zero.

    That an update diverged is nobody's business either, so it is not an error.

    Args:
        rows: A row per client.
    """
    norms = norms_of(rows)
    factors = torch.where(norms > most, DOWN * most / norms, 1.0)
    tiny = factors < SMALL
    if bool(tiny.any()):
        rows = torch.where(tiny[:, None], rows * SMALL, rows)
        factors = torch.where(tiny, factors / SMALL, factors)
    return torch.where(norms.isfinite()[:, None], rows * factors.to(rows.dtype)[:, None], 0.0)
