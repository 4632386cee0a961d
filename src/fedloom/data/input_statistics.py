"""Mean and standard deviation of the training inputs, for normalising a user's own data.

These are two sums per client, so a real federation can compute them without revealing a sample.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.data.federation import Federation

PIECE = 1 << 24


def input_statistics(federation: Federation, column: str = "x") -> tuple[Tensor, Tensor]:
    """Mean and standard deviation per feature or channel (axis 1) over all training samples; 1 where nothing varies.

    uint8 inputs are taken as fractions of 255, as everywhere else.

    Args:
        federation: The federation.
        column: The full name of the input column: ``x``, or ``x/NAME`` where there are several.
    """
    x, order = federation.columns[column], federation.train.order
    width = x.shape[1]
    step = max(1, PIECE // max(1, x[0].numel()))
    scale = 255.0 if x.dtype == torch.uint8 else 1.0
    total, squares, count = torch.zeros(width).double(), torch.zeros(width).double(), 0
    for shift in (False, True):  # two passes, so that a large mean does not cost precision
        for start in range(0, len(order), step):
            piece = x[order[start : start + step]].double().transpose(0, 1).reshape(width, -1) / scale
            if shift:
                squares += (piece - (total / count)[:, None]).square().sum(1)
            else:
                total += piece.sum(1)
                count += piece.shape[1]
    spread = (squares / count).sqrt()
    return (total / count).float(), torch.where(spread > 1e-12, spread, 1.0).float()
