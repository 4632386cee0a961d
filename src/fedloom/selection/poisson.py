"""Poisson sampling: every client takes part with the same probability, independently of the others.

It is what the accounting of differential privacy assumes. How many clients a round has varies; a round without any, or
with fewer than the run's aggregator needs, is drawn again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.facts import Fact
from fedloom.core.selector import Choice, Draws, Pool
from fedloom.core.settings import PositiveShare, check_settings


@dataclass(frozen=True)
class Poisson:
    """Draw every client with the same probability, independently of the others.

    Args:
        rate: That probability.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    grants: ClassVar[Collection[Fact]] = (Fact.BLIND_DRAW,)

    rate: PositiveShare = 0.1

    def __post_init__(self) -> None:
        check_settings(self)

    def draws(self, clients: int) -> Draws:
        """Each client with the same probability."""
        return Draws(rate=self.rate)

    def __call__(self, pool: Pool) -> Choice:
        """Draw the clients of a round."""
        if pool.size < pool.least:
            return Choice(list(range(pool.size)))  # no draw has enough: the check of choices says so
        generator = pool.generator("selection")
        while True:
            drawn = (generator.random(pool.size) < self.rate).nonzero()[0].tolist()
            if len(drawn) >= pool.least:
                return Choice(drawn)
