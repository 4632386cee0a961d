"""What the round loop needs to know of a run's privacy; ``channel.privacy.ledger`` implements it."""

from __future__ import annotations

from typing import Protocol


class Privacy(Protocol):
    """What a run spends of its clients' privacy."""

    @property
    def expected(self) -> float:
        """How many clients a round has on average."""

    @property
    def budget(self) -> float | None:
        """The epsilon that the run may spend; None for any."""

    def spent(self, rounds: int) -> float:
        """The epsilon that so many rounds spend."""
