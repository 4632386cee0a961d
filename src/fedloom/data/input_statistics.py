"""Mean and standard deviation of the training inputs, for normalising a user's own data.

These are two sums per client, so a real federation can compute them without revealing a sample.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.data.federation import Federation

PIECE = 1 << 17
"""About this many numbers are looked at together: as doubles they stay in a processor's cache."""


def input_statistics(federation: Federation, column: str = "x") -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per feature or channel (axis 1) over all training samples; 1 where nothing varies.

    uint8 inputs are taken as fractions of 255, as everywhere else. Each piece of samples has its own mean, so that a
    large mean does not cost precision; squared deviations from two means are added as Chan et al. do
    (Algorithms for Computing the Sample Variance, The American Statistician 1983).

    Args:
        column: The full name of the input column: ``x``, or ``x/NAME`` where there are several.
    """
    x, order = federation.columns[column], federation.train.order
    total, squares, count = torch.zeros(x.shape[1]).double(), torch.zeros(x.shape[1]).double(), 0
    for positions in torch.split(order, max(1, PIECE // max(1, x[0].numel()))):
        piece = x.index_select(0, positions).double()
        piece = piece.flatten(2) if piece.dim() > 2 else piece
        axes, own = tuple(axis for axis in range(piece.dim()) if axis != 1), piece.numel() // piece.shape[1]
        sums = piece.sum(axes)
        shape = (1, -1, *[1] * (piece.dim() - 2))
        squares += piece.sub_((sums / own).view(shape)).square_().sum(axes)
        if count:
            squares += (sums / own - total / count).square() * (count * own / (count + own))
        total, count = total + sums, count + own
    scale = 255.0 if x.dtype == torch.uint8 else 1.0
    spread = (squares / count).sqrt() / scale
    return (total / count / scale).float(), torch.where(spread > 1e-12, spread, 1.0).float()
