"""Poisson sampling: every client takes part with the same probability, independently of the others.

It is what the accounting of differential privacy assumes. How many clients a round has varies; a round without any is
drawn again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.selector import Choice, Draws, Pool


@dataclass(frozen=True)
class Poisson:
    """Draw every client with the same probability, independently of the others.

    Args:
        rate: That probability.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    grants: ClassVar[Collection[Fact]] = (Fact.BLIND_DRAW,)

    rate: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise FedloomError(f"rate={self.rate}: the probability of a client must be above 0 and at most 1.")

    def draws(self, clients: int) -> Draws:
        """Each client with the same probability."""
        return Draws(rate=self.rate)

    def __call__(self, pool: Pool) -> Choice:
        """Draw the clients of a round."""
        generator = pool.generator("selection")
        while True:
            drawn = (generator.random(pool.size) < self.rate).nonzero()[0].tolist()
            if drawn:
                return Choice(drawn)
