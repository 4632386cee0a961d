"""Randomness without a shared stream.

Every random choice has a generator of its own, keyed by (run seed, purpose, round, client). So the order in which
clients finish, the number of workers and interruptions change nothing, and drawing more numbers for one
purpose never shifts another.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import torch


def key(seed: int, purpose: str, *where: int) -> int:
    """A 63-bit number for one purpose at one place: the seed of one generator."""
    text = f"{seed}/{purpose}/{'/'.join(map(str, where))}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1


def generator(seed: int, purpose: str, *where: int) -> torch.Generator:
    """A torch generator for one purpose at one place."""
    return torch.Generator().manual_seed(key(seed, purpose, *where))


def numpy_generator(seed: int, purpose: str, *where: int) -> np.random.Generator:
    """A numpy generator for one purpose at one place."""
    return np.random.Generator(np.random.PCG64(key(seed, purpose, *where)))


def secret_generator() -> np.random.Generator:
    """A numpy generator that nobody can repeat: the operating system seeds it, and nothing remembers the seed."""
    return np.random.Generator(np.random.PCG64(secrets.randbits(256)))
