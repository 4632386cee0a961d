"""What a run needs to know of its privacy, which ``privacy/`` implements: ledgers of what was spent.

A part that adds noise makes the ledger itself, from what is planned (``PlannedRun``): an aggregator for all clients
alike, a step of the channel or the privacy of samples for each client apart.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fedloom.core.local_work import LocalWork
from fedloom.core.selector import Draws
from fedloom.core.task import Task

if TYPE_CHECKING:
    from fedloom.core.algorithm import Algorithm


@dataclass(frozen=True)
class PlannedRun:
    """A run, as far as accounting needs to know it before the run starts.

    Args:
        algorithm: The method.
        task: The task as its clients train on it.
        work: The clients' local work.
        rounds: How many rounds there are.
        clients: How many clients may take part.
        draws: How the clients of a round are drawn; None if nothing is known of that.
        deployed: Whether the clients are machines.
        tells_draws: By which part of the run others learn who was drawn, as a clause; None where nobody can.
    """

    algorithm: Algorithm
    task: Task
    work: LocalWork
    rounds: int
    clients: int
    draws: Draws | None = None
    deployed: bool = False
    tells_draws: str | None = None


class Privacy(Protocol):
    """What a run spends of its clients' privacy, all of them alike."""

    @property
    def expected(self) -> float:
        """How many clients a round has on average."""

    @property
    def rate(self) -> float:
        """The probability of a client in a round."""

    @property
    def budget(self) -> float | None:
        """The epsilon that the run may spend; None for any."""

    @property
    def secret_draws(self) -> bool:
        """Whether what is counted holds only if nobody learns who was drawn."""

    def spent(self, rounds: int) -> float:
        """The epsilon that this many rounds spend."""


class ClientPrivacy(Protocol):
    """What a run spends of single clients' privacy: each client has used it a number of times of its own."""

    @property
    def budget(self) -> float | None:
        """The epsilon that a client may spend; None for any."""

    def uses(self, steps: int) -> int:
        """How often a client has used it that made this many gradient steps in an exchange."""

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
