"""Clients at random: what most papers do, and what any cleverer selector has to beat."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedloom.core.pool import Choice, Pool
from fedloom.errors import FedloomError


@dataclass(frozen=True)
class Random:
    """Clients drawn without replacement: ``number`` of them, or a ``fraction`` (rounded up, at least one)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    fraction: float = 1.0
    number: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise FedloomError(f"fraction={self.fraction}: the share of clients in a round is above 0 and at most 1.")
        if self.number is not None and self.number < 1:
            raise FedloomError(f"number={self.number}: a round needs at least one client.")
        if self.number is not None and self.fraction != 1:
            raise FedloomError(
                f"number={self.number} and fraction={self.fraction} both say how many clients a round has: give one."
            )

    def per_round(self, clients: int) -> int:
        """How many clients a round has."""
        if self.number is None:
            return max(1, math.ceil(self.fraction * clients - 1e-9))
        if self.number > clients:
            raise FedloomError(f"number={self.number} clients per round, but there are only {clients}: choose fewer.")
        return self.number

    def __call__(self, pool: Pool) -> Choice:
        """A round's clients."""
        number = self.per_round(pool.size)
        if number == pool.size:
            return Choice(list(range(pool.size)))
        drawn = pool.generator("selection").choice(pool.size, number, replace=False)
        return Choice([int(place) for place in drawn])
