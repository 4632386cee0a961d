"""What the round loop needs to know of a run's privacy, which ``channel.privacy`` implements; settings of noise."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Protocol

from annotated_types import Ge, Le

LEAST_NOISE, LARGEST_NOISE = 1e-12, 1e6
"""Noise is a deviation divided by a clip norm; outside of these bounds accounting is not possible, and useless."""
Noise = Annotated[float, Ge(LEAST_NOISE), Le(LARGEST_NOISE)]


class Privacy(Protocol):
    """What a run spends of its clients' privacy, all of them alike."""

    @property
    def expected(self) -> float:
        """How many clients a round has on average."""

    @property
    def budget(self) -> float | None:
        """The epsilon that the run may spend; None for any."""

    def spent(self, rounds: int) -> float:
        """The epsilon that so many rounds spend."""


class ClientPrivacy(Protocol):
    """What a run spends of single clients' privacy: each client has used it a number of times of its own."""

    def uses(self, steps: int) -> int:
        """How often a client that made so many steps in an exchange has used it.

        Args:
            steps: How many gradient steps it made.
        """

    def mechanism(self, samples: int) -> str:
        """What one use costs depends on, as a text: uses may be added up only where it is the same.

        Args:
            samples: How many training samples the client has.
        """

    def spent(self, samples: Sequence[int], uses: Sequence[int]) -> float:
        """The largest epsilon of any client.

        Args:
            samples: How many training samples each client has.
            uses: How often each of them used it.
        """

    def over_budget(self, samples: Sequence[int], uses: Sequence[int]) -> Collection[int]:
        """The places of the clients who would have spent more than they may.

        Args:
            samples: How many training samples each client has.
            uses: How often each of them would have used it.
        """
