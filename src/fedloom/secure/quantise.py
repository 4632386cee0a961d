"""Rows of integers that can be added under masks: a grid of values, and a word that their sum never leaves.

With ``b`` bits there are ``L = 2^(b-1) - 1`` steps on both sides of zero: ``x`` in [-limit, limit] becomes the integer
below or above ``x / limit * L``, at random, such that its mean is right (stochastic rounding). Zero stays zero.

**The sum of n clients cannot wrap.** Every integer lies in [-L, L], so that of ``m <= n`` clients lies in [-nL, nL]. A
word of w bits holds, as two's complement, [-2^(w-1), 2^(w-1) - 1]; the grid takes 32 bits if ``n L <= 2^31 - 1`` and 64
bits otherwise, and refuses a grid with ``n L > 2^63 - 1``. Arithmetic modulo 2^w is exact for a result that lies in
that range, whatever the partial sums did. A head's integer is cut into limbs of ``w - ceil(log2 n)`` bits: n limbs add
up to at most ``n (2^(w - ceil(log2 n)) - 1) < 2^w``.

**The error of a sum** of m rows is below ``m`` steps of ``limit / L`` in every coordinate, and its deviation is at most
``sqrt(m) / 2`` steps: an integer is less than one step from its value, and a number in an interval of one step has a
variance of at most a quarter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.typing import NDArray
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, Positive, check_settings

Words = NDArray[Any]
"""Integers modulo 2^32 or 2^64: ``uint32`` or ``uint64``."""
HEAD_BITS = 53
"""The integers of a head are below 2^53, so that each is a float64 too."""


@dataclass(frozen=True)
class Grid:
    """The integers that stand for the values of a row.

    Args:
        bits: The bits of a value, from 2 to 32.
        limit: The largest magnitude of a value. A row beyond it is scaled as a whole.
        clients: The most rows that are added up.
    """

    bits: Annotated[int, Ge(2), Le(32)]
    limit: Positive
    clients: Count

    def __post_init__(self) -> None:
        check_settings(self)
        if self.clients * self.levels > 2**63 - 1:
            raise FedloomError(
                f"the sum of {self.clients:,} clients with {self.bits} bits each needs more than 64: take fewer bits."
            )

    @property
    def levels(self) -> int:
        """The number of steps on either side of zero."""
        return int(2 ** (self.bits - 1) - 1)

    @property
    def step(self) -> float:
        """The distance of two neighbouring values."""
        return self.limit / self.levels

    @property
    def word(self) -> int:
        """The bits of a word: 32 or 64."""
        return 32 if self.clients * self.levels <= 2**31 - 1 else 64

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a word."""
        return np.dtype(f"uint{self.word}")

    def quantise(self, rows: Tensor, generator: torch.Generator) -> tuple[Words, NDArray[np.bool_]]:
        """The integers of some rows, and which rows were scaled to fit: their direction stays, their length shrinks.

        Args:
            rows: A row per client; of finite numbers.
            generator: Decides between the integer below and the one above.
        """
        rows = rows.detach().double()
        if rows.dim() != 2:
            raise FedloomError(f"secure sums add rows of a matrix, got a tensor of shape {tuple(rows.shape)}.")
        if not bool(torch.isfinite(rows).all()):
            raise FedloomError("an update has values that are not finite, and a secure sum cannot carry them.")
        largest = rows.abs().amax(dim=1, keepdim=True) if rows.shape[1] else rows.new_zeros(len(rows), 1)
        exact = rows / largest.clamp(min=self.limit) * self.levels  # |exact| <= levels: rounding is monotone
        below = exact.floor()
        chance = torch.rand(exact.shape, generator=generator, dtype=torch.float64)
        integers = (below + (chance < exact - below)).long().numpy()
        return integers.astype(self.dtype), (largest[:, 0] > self.limit).numpy()

    def restore(self, total: Words) -> Tensor:
        """The values of a sum, in double precision.

        Args:
            total: The sum of integers, modulo the word.
        """
        _check_words(total, self.dtype)
        return torch.from_numpy(total.view(f"int{self.word}").astype(np.float64)) * self.step

    @property
    def limb_bits(self) -> int:
        """The bits of a word that one client may fill when a head is added up."""
        return self.word - (self.clients - 1).bit_length()

    @property
    def limbs(self) -> int:
        """The words that an integer of a head takes."""
        return math.ceil(HEAD_BITS / self.limb_bits)

    def pack(self, head: Sequence[int], values: Words) -> Words:
        """One row of words: exact integers, then quantised values.

        Args:
            head: Whole numbers from 0 to below 2^53, such as a sample count.
            values: The integers of one row.
        """
        _check_words(values, self.dtype)
        for number in head:
            if not 0 <= number < 2**HEAD_BITS:
                raise FedloomError(f"a secure sum counts exactly from 0 to below 2^{HEAD_BITS}, got {number}.")
        mask = 2**self.limb_bits - 1
        words = [number >> place * self.limb_bits & mask for number in head for place in range(self.limbs)]
        return np.concatenate([np.array(words, dtype=self.dtype), values])

    def unpack(self, total: Words, head: int) -> tuple[list[int], Words]:
        """The sums of the head's integers, and those of the quantised values.

        Args:
            total: The sum of packed rows.
            head: How many integers the head has.
        """
        _check_words(total, self.dtype)
        if len(total) < head * self.limbs:
            raise FedloomError(f"a sum of {len(total)} words has no head of {head} numbers.")
        words = [int(word) for word in total[: head * self.limbs]]
        sums = [
            sum(word << place * self.limb_bits for place, word in enumerate(words[at : at + self.limbs]))
            for at in range(0, len(words), self.limbs)
        ]
        return sums, total[len(words) :]


def words_of_tensor(row: Tensor) -> Words:
    """A tensor as words, which have no sign.

    Args:
        row: A row of ``int32`` or ``int64``.
    """
    types = {torch.int32: np.uint32, torch.int64: np.uint64}
    if row.dtype not in types or row.dim() != 1:
        raise FedloomError(f"a row of a secure sum is int32 or int64, got {row.dtype} of shape {tuple(row.shape)}.")
    return row.contiguous().numpy().view(types[row.dtype])


def tensor_of_words(words: Words) -> Tensor:
    """Words as a tensor of the same bits.

    Args:
        words: ``uint32`` or ``uint64``.
    """
    return torch.from_numpy(words.view(np.int32 if words.dtype == np.uint32 else np.int64))


def _check_words(words: Words, dtype: np.dtype[Any]) -> None:
    if words.dtype != dtype or words.ndim != 1:
        raise FedloomError(f"a row of this secure sum has words of {dtype}, got {words.dtype} of shape {words.shape}.")
