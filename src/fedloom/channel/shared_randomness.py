"""Randomness that server and client share by a seed: a client sends 64 bits instead of positions, signs or a matrix.

Positions and signs come from the raw bits of PCG64, a stream that numpy promises never to change, and not from a
sampling algorithm: server and site draw the same ones also with different versions of their libraries.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedloom.channel.arrival_check import extra_rows
from fedloom.core.channel_step import Extras, Sender

POSITIONS, SIGNS, MATRICES = 0, 1, 2
"""What a seed is used for; each use has a stream of its own, and each matrix."""


def share_of(fraction: float, width: int) -> int:
    """How many entries a share of a row is: rounded up, and at least one.

    Args:
        fraction: The share.
        width: How many entries the row has.
    """
    return max(1, math.ceil(fraction * width - 1e-9))


def draw_seeds(sender: Sender, clients: int) -> Tensor:
    """A seed per client, for this step, round and reply: a column of whole numbers.

    Args:
        sender: The clients.
        clients: How many they are.
    """
    drawn = [torch.randint(2**63 - 1, (1,), generator=sender.generator(place)) for place in range(clients)]
    return torch.stack(drawn)


def read_seeds(extras: Extras, clients: int) -> Tensor:
    """The seeds that clients sent.

    Args:
        extras: What they sent beside their rows.
        clients: How many they are.
    """
    seeds = extra_rows(extras, "seed", torch.int64, 1, clients)
    if bool((seeds < 0).any()):
        raise ValueError("a seed is negative")
    return seeds


def random_positions(seeds: Tensor, width: int, count: int) -> Tensor:
    """For each seed, ``count`` different positions of a row, uniform and ascending.

    Args:
        seeds: A seed per client.
        width: How many entries the row has.
        count: How many of them are chosen.
    """
    if count == width:
        return torch.arange(width).expand(len(seeds), -1)
    return _from_bits(seeds, POSITIONS, width, lambda bits: np.sort(np.argpartition(bits, count)[:count]))


def random_signs(seeds: Tensor, width: int) -> Tensor:
    """For each seed, a row of fair signs: 1.0 or -1.0.

    Args:
        seeds: A seed per client.
        width: How many signs.
    """

    def signs(words: np.ndarray) -> np.ndarray:
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=width)
        return bits.astype(np.float32) * 2 - 1

    return _from_bits(seeds, SIGNS, -(-width // 64), signs)


def random_matrix(seed: int, number: int, height: int, width: int) -> Tensor:
    """A matrix of uniform numbers between -1 and 1.

    Args:
        number: Which of the matrices of this seed.
        height: Its rows.
        width: Its columns.
    """
    words = np.random.PCG64((seed, MATRICES + number)).random_raw(height * width) >> np.uint64(11)
    return torch.from_numpy(words.astype(np.float64) * 2.0**-52 - 1).view(height, width)


def _from_bits(seeds: Tensor, use: int, words: int, make: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """A row for each seed, made of ``words`` words of 64 random bits."""
    rows = [make(np.random.PCG64((seed, use)).random_raw(words)) for seed in seeds.flatten().tolist()]
    return torch.from_numpy(np.stack(rows))
