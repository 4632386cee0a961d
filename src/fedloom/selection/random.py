"""Clients at random: what most papers do, and what any cleverer selector has to beat."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.selector import Choice, Pool
from fedloom.selection.sampling import PerRound


@dataclass(frozen=True)
class Random(PerRound):
    """Clients drawn without replacement: ``number`` of them, or a ``fraction`` (rounded up, at least one)."""

    def __call__(self, pool: Pool) -> Choice:
        """A round's clients."""
        number = self.per_round(pool.size)
        if number == pool.size:
            return Choice(list(range(pool.size)))
        drawn = pool.generator("selection").choice(pool.size, number, replace=False)
        return Choice([int(place) for place in drawn])
