"""Masks of a row: uniform words that cancel in the sum of all clients.

Client u sends ``y_u = x_u + PRG(b_u) + sum_{v > u} PRG(s_uv) - sum_{v < u} PRG(s_uv)`` modulo the word: ``b_u`` is its
own secret and ``s_uv`` one that it shares with its neighbour v (Bonawitz et al., Practical Secure Aggregation for
Privacy-Preserving Machine Learning, CCS 2017, https://eprint.iacr.org/2017/281). PRG is AES-256-CTR, read as
little-endian words; a key of 256 bits is derived for every pair and round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedloom.secure.primitives import ExchangeKey, derive, fill_stream
from fedloom.secure.quantise import Words


def pair_key(mine: ExchangeKey, public: bytes, about: bytes, one: int, other: int) -> bytes:
    """The key of the mask that two clients share.

    Args:
        mine: The mask key of one client.
        public: The public half of the other's.
        about: The run and the round.
        one: The number of one client.
    """
    low, high = sorted((one, other))
    clients = low.to_bytes(4, "big") + high.to_bytes(4, "big")
    return derive(mine.agree(public), b"fedloom pair mask" + about + clients)


def self_key(seed: bytes, about: bytes, client: int) -> bytes:
    """The key of a client's own mask.

    Args:
        seed: The client's secret for the round.
        about: The run and the round.
    """
    return derive(seed, b"fedloom self mask" + about + client.to_bytes(4, "big"))


def pair_sign(client: int, other: int) -> int:
    """Whether a client adds (1) or subtracts (-1) the mask that it shares with another."""
    return 1 if client < other else -1


class MaskAdder:
    """Adds masks to rows of one width. Its buffers are reused: making them takes longer than filling them.

    Args:
        width: The words of a row.
        dtype: Their type, ``uint32`` or ``uint64``.
    """

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self._zeros = np.zeros(width * dtype.itemsize, dtype=np.uint8)
        self._stream = np.empty(width * dtype.itemsize + 16, dtype=np.uint8)  # the cipher wants room for a block
        self._words = self._stream[: len(self._zeros)].view(dtype.newbyteorder("<"))

    def add(self, row: Words, key: bytes, sign: int) -> None:
        """Add the mask of a key to a row, in place.

        Args:
            sign: 1 adds the mask, -1 subtracts it.
        """
        fill_stream(key, self._zeros, self._stream)
        (np.add if sign > 0 else np.subtract)(row, self._words, out=row)
