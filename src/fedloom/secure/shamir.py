"""Shamir's shares of a secret: any ``threshold`` of them give it back, and fewer say nothing about it.

The secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over the field of the Mersenne prime
2^521 - 1; a holder's share is the value at its number plus one. Shamir, How to Share a Secret, CACM 1979.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from fedloom.core.errors import FedloomError

PRIME = 2**521 - 1
SECRET = 32
"""The bytes of a secret."""
SHARE = 66
"""The bytes of a share."""


def split(secret: bytes, holders: Iterable[int], threshold: int, randomness: bytes) -> dict[int, bytes]:
    """A share for each holder.

    Args:
        threshold: How many shares give the secret back.
        randomness: The coefficients: ``count_random_bytes(threshold)`` secret random bytes.
    """
    holders = list(holders)
    if len(secret) != SECRET:
        raise ValueError(f"a secret has {SECRET} bytes, got {len(secret)}")
    if len(set(holders)) != len(holders) or min(holders, default=0) < 0:
        raise ValueError("each holder of a share needs a number of its own, from 0")
    if not 1 <= threshold <= len(holders):
        raise ValueError(f"threshold={threshold}: it must be from 1 to the number of holders, {len(holders)}")
    if len(randomness) != count_random_bytes(threshold):
        raise ValueError(f"{threshold - 1} coefficients need {count_random_bytes(threshold)} random bytes")
    # 2^528 is 128 times the prime and 128 more, so the remainders of 66 random bytes are uniform but for 2^-521.
    coefficients = [
        int.from_bytes(randomness[at : at + SHARE], "big") % PRIME for at in range(0, len(randomness), SHARE)
    ]
    coefficients.append(int.from_bytes(secret, "big"))
    shares = {}
    for holder in holders:
        value = 0
        for coefficient in coefficients:  # Horner's scheme; points are small, so one reduction at the end is cheapest
            value = value * (holder + 1) + coefficient
        shares[holder] = (value % PRIME).to_bytes(SHARE, "big")
    return shares


def count_random_bytes(threshold: int) -> int:
    """How many random bytes the coefficients of a polynomial take.

    Args:
        threshold: How many shares give the secret back.
    """
    return (threshold - 1) * SHARE


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret of some shares; a ``FedloomError`` if they do not belong to one secret.

    Args:
        shares: The shares by the numbers of their holders.
        threshold: How many give the secret back; of more, those with the lowest numbers count.
    """
    if len(shares) < threshold:
        raise FedloomError(f"a secret needs {threshold} shares, and there are {len(shares)}.")
    holders = tuple(sorted(shares)[:threshold])
    if holders and holders[0] < 0:
        raise ValueError(f"holders have numbers from 0, got {holders[0]}")
    value = 0
    for holder, weight in zip(holders, _weights(holders), strict=True):
        value += check_share(shares[holder]) * weight
    value %= PRIME
    if value >= 2 ** (8 * SECRET):
        raise FedloomError("these shares do not belong to one secret.")
    return value.to_bytes(SECRET, "big")


def check_share(share: bytes) -> int:
    """A share's number, or a ``ValueError`` if the bytes are not a share."""
    value = int.from_bytes(share, "big")
    if len(share) != SHARE or value >= PRIME:
        raise ValueError(f"a share has {SHARE} bytes and lies below 2^521 - 1, got {len(share)} bytes")
    return value


@lru_cache(maxsize=256)
def _weights(holders: tuple[int, ...]) -> list[int]:
    """Lagrange's weights at 0: the product of ``x_j / (x_j - x_i)`` over the other points."""
    points = [holder + 1 for holder in holders]
    weights = []
    for mine in points:
        above, below = 1, 1
        for other in points:
            if other != mine:
                above *= other
                below *= other - mine
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights
