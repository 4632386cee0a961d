"""Sketched updates: a random rotation, then random entries of the rotated row.

``R = H D / sqrt(n)``: random signs D, then a Walsh-Hadamard transform H of blocks of n = 4,096 entries (the last one
is filled up with zeros; rows that are shorter are one block). The server puts zeros where nothing was sent, scales by
d/k and rotates back: ``E[decode(encode(u))] = u``, with ``E||decode(encode(u)) - u||^2 <= (d/k - 1) ||u||^2``, where d
counts what fills up, too. With ``fraction = 1`` nothing is lost but rounding.

The variance is that of ``randomk``, but the rotation spreads every entry over its block: no single large entry is lost
or blown up, and all entries have similar magnitudes, so few bits are enough for them: ``qsgd`` after it is the
paper's whole scheme. We chose it over a count sketch since it is unbiased with a known variance for every update,
while a count sketch needs a few entries to dominate.

Konečný et al., Federated Learning: Strategies for Improving Communication Efficiency, 2016,
https://arxiv.org/abs/1610.05492, section 3. The paper rotates each layer by itself; here blocks are cut from the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.channel.shared_randomness import draw_seeds, random_signs, read_seeds, share_of
from fedloom.channel.sparse_rows import spread_random_entries, take_random_entries
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.settings import PositiveShare

BLOCK = 4096
"""How many entries are rotated together."""


@dataclass(frozen=True)
class Sketch(ChannelStep):
    """Send random entries of a randomly rotated update, and the seed of the rotation and the positions.

    Args:
        fraction: The share of the rotated entries that is sent; at least one entry is.
    """

    fraction: PositiveShare = 0.25

    def width(self, width: int) -> int:
        """How many rotated entries are sent."""
        return share_of(self.fraction, rotated_width(width))

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """Random entries of the rotated rows."""
        width = rows.shape[1]
        seeds = draw_seeds(sender, len(rows))
        wide = torch.nn.functional.pad(rows, (0, rotated_width(width) - width))
        rotated = _transform(wide * random_signs(seeds, wide.shape[1]))
        return take_random_entries(rotated, seeds, self.width(width)), {"seed": seeds}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """The rows that were most likely rotated: unbiased, not exact."""
        wide, count = rotated_width(width), self.width(width)
        rotated = spread_random_entries(rows, extras, wide, count) * (wide / count)
        return (_transform(rotated) * random_signs(read_seeds(extras, len(rows)), wide))[:, :width]


def rotated_width(width: int) -> int:
    """The width of a row that is filled up to whole blocks.

    Args:
        width: Its width before.
    """
    return -(-width // BLOCK) * BLOCK if width > BLOCK else 1 << (width - 1).bit_length()


def _transform(rows: Tensor) -> Tensor:
    return walsh_hadamard(rows.view(len(rows), -1, min(BLOCK, rows.shape[1]))).view(rows.shape)


def walsh_hadamard(vectors: Tensor) -> Tensor:
    """``H x / sqrt(n)`` along the last axis in ``n log n`` additions, in the order of ``scipy.linalg.hadamard``.

    It is its own inverse and keeps norms. It only adds two numbers at a time, so a vector's result does not depend on
    which others are transformed with it.

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
