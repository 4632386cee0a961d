"""Noise that protects privacy: from the operating system's secure generator, which nobody can repeat.

Runs are repeatable because all their randomness is keyed by the seed. Noise that whoever knows the seed can subtract
protects nobody, so it does not come from there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError

ONE = np.uint64(0x3FF0000000000000)
"""The bits of the double 1.0."""


def secure_bytes(count: int) -> bytes | bytearray:
    """Bytes that nobody can predict: the stream of AES-256 under a new key of the operating system's generator, which
    is twenty times as fast as that generator itself; without ``cryptography`` they come from there.

    Args:
        count: How many.
    """
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        return os.urandom(count)
    stream = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    found = bytearray(count)
    stream.update_into(bytes(count), found)
    return found


def secure_uniform(count: int) -> np.ndarray:
    """Numbers above 0 and at most 1, with 52 random bits each.

    Args:
        count: How many.
    """
    bits = np.frombuffer(bytearray(secure_bytes(8 * count)), dtype=np.uint64)
    bits >>= np.uint64(12)
    bits |= ONE  # as doubles: at least 1 and below 2
    uniform: np.ndarray = 2.0 - bits.view(np.float64)
    return uniform


def secure_normal(count: int) -> Tensor:
    """Independent standard normal numbers in double precision, by Box and Muller's transform.

    Args:
        count: How many.
    """
    half = -(-count // 2)
    radius = torch.from_numpy(secure_uniform(half)).log_().mul_(-2).sqrt_()
    angle = torch.from_numpy(secure_uniform(half)).mul_(2 * math.pi)
    return torch.cat([radius * angle.cos(), radius.mul_(angle.sin_())])[:count]


Uniform = Callable[[int], np.ndarray]
"""Gives as many independent numbers as asked for, above 0 and at most 1."""
FEW = 10.0
"""Below this mean the cumulative probabilities of a Poisson distribution are a short table."""


def poisson(mean: float, count: int, uniform: Uniform = secure_uniform) -> np.ndarray:
    """Independent Poisson numbers of one mean.

    By a table of cumulative probabilities for a small mean, and by transformed rejection otherwise: Hörmann, The
    transformed rejection method for generating Poisson random variables, Insurance: Mathematics and Economics 12, 1993,
    algorithm PTRS, with probabilities that stay accurate for means of any size.

    Args:
        mean: The mean; at most 2^50, so that a number and its neighbours are exact in double precision.
        count: How many.
        uniform: Where randomness comes from.
    """
    if not 0 <= mean <= 2.0**50:
        raise FedloomError(f"a Poisson number of mean {mean:g} cannot be drawn: take a coarser grid or less noise.")
    if mean < FEW:
        numbers = np.arange(1, 80)
        chances = np.cumsum(np.exp(-mean) * np.cumprod(np.concatenate([[1.0], mean / numbers])))
        few: np.ndarray = np.searchsorted(chances, uniform(count) * chances[-1])
        return few
    found, left = np.zeros(count, dtype=np.int64), np.arange(count)
    while len(left):
        drawn, accepted = _try_poisson(mean, len(left), uniform)
        found[left[accepted]] = drawn[accepted]
        left = left[~accepted]
    return found


def _try_poisson(mean: float, count: int, uniform: Uniform) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of transformed rejection, and which of them are accepted."""
    wide = 0.931 + 2.53 * math.sqrt(mean)
    tall = -0.059 + 0.02483 * wide
    height = 1.1239 + 1.1328 / (wide - 3.4)
    inner = 0.9277 - 3.6224 / (wide - 2)
    u, v = uniform(count) - 0.5, uniform(count)
    edge = np.maximum(0.5 - np.abs(u), 2.0**-54)
    drawn = np.floor((2 * tall / edge + wide) * u + mean + 0.43)
    possible = drawn >= 0
    k = np.where(possible, drawn, 0.0)
    with np.errstate(divide="ignore"):
        bound = np.log(v) + math.log(height) - np.log(tall / edge**2 + wide)
    accepted = possible & (((edge >= 0.07) & (v <= inner)) | (bound <= _log_poisson(k, mean)))
    return np.where(accepted, drawn, 0).astype(np.int64), accepted


def _log_poisson(k: np.ndarray, mean: float) -> np.ndarray:
    """The logarithm of Poisson probabilities, without differences of large numbers (Loader's way)."""
    some = np.maximum(k, 1.0)
    deviance = some * np.log1p((some - mean) / mean) - (some - mean)
    stirling = 1 / (12 * some) - 1 / (360 * some**3) + 1 / (1260 * some**5)
    return np.where(k > 0, -deviance - stirling - 0.5 * np.log(2 * math.pi * some), -mean)
