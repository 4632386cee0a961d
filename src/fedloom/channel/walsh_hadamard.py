"""The fast Walsh-Hadamard transform: ``H x / sqrt(n)`` in ``n log n`` additions, on many vectors at once.

It is its own inverse and keeps norms. Only additions of two numbers: a vector's result does not depend on which others
are transformed with it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def walsh_hadamard(vectors: Tensor) -> Tensor:
    """The normalised transform along the last axis, in the order of ``scipy.linalg.hadamard``.

    Args:
        vectors: Vectors whose length is a power of two.
    """
    size = vectors.shape[-1]
    across = 1 << ((size - 1).bit_length() // 2)
    matrices = vectors.reshape(-1, size // across, across)  # H of a product of powers of two: along one axis, then
    halfway = _sum_along_first_axis(matrices).transpose(1, 2).contiguous()  # along the other, each time with long rows
    found = _sum_along_first_axis(halfway).transpose(1, 2)
    return (found / math.sqrt(size)).reshape(vectors.shape)


def _sum_along_first_axis(matrices: Tensor) -> Tensor:
    """H times each matrix, by butterflies of whole rows."""
    count, height, length = matrices.shape
    half = 1
    while half < height:
        pairs = matrices.view(count, -1, 2, half * length)
        matrices = torch.empty_like(pairs)
        torch.add(pairs[:, :, 0], pairs[:, :, 1], out=matrices[:, :, 0])
        torch.sub(pairs[:, :, 0], pairs[:, :, 1], out=matrices[:, :, 1])
        half *= 2
    return matrices.view(count, height, length)
