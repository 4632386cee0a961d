"""Random selection: the default of most papers and the baseline for every other selector."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.facts import Fact
from fedloom.core.selector import Choice, Pool
from fedloom.selection.sampling import PerRound


@dataclass(frozen=True)
class Random(PerRound):
    """Draw clients without replacement.

    Args:
        fraction: The share of clients per round, rounded up.
        number: The number of clients per round, instead of ``fraction``.
    """

    grants: ClassVar[Collection[Fact]] = (Fact.BLIND_DRAW,)

    def __call__(self, pool: Pool) -> Choice:
        """Draw the clients of a round."""
        number = self.per_round(pool.size)
        if number == pool.size:
            return Choice(list(range(pool.size)))
        drawn = pool.generator("selection").choice(pool.size, number, replace=False)
        return Choice([int(place) for place in drawn])
