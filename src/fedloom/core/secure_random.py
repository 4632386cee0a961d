"""Noise that protects privacy: from the operating system's secure generator, which nobody can repeat.

Runs are repeatable because all their randomness is keyed by the seed. Noise that whoever knows the seed can subtract
protects nobody, so it does not come from there.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import Tensor


def secure_uniform(count: int) -> np.ndarray:
    """Numbers above 0 and at most 1, with 53 random bits each.

    Args:
        count: How many.
    """
    bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    uniform: np.ndarray = (bits + np.uint64(1)).astype(np.float64) * 2.0**-53
    return uniform


def secure_normal(count: int) -> Tensor:
    """Independent standard normal numbers in double precision, by Box and Muller's transform.

    Args:
        count: How many.
    """
    half = -(-count // 2)
    radius, angle = np.sqrt(-2 * np.log(secure_uniform(half))), 2 * np.pi * secure_uniform(half)
    return torch.from_numpy(np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count])
