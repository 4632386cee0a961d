"""The terms of a secure sum, which all of its clients and the server know beforehand.

Every key and signature of the sum is bound to them: a client that was told other terms shares no masks with the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fedloom.core.errors import FedloomError
from fedloom.secure.neighbours import NeighbourPlan, count_of, neighbours_by_client, plan_neighbours
from fedloom.secure.primitives import digest
from fedloom.secure.sum_step import RefusedMessage


@dataclass(frozen=True)
class SumTerms:
    """What a secure sum is about and what it tolerates.

    Args:
        run: Names the run; no other run may have the same name.
        invited: The numbers of the clients that were asked.
        dropouts: The largest share of them that may drop out, at any phase.
        colluders: The largest share of them that may help the server.
        attempt: Counts the waves of the round. A round that is tried again has new keys, and the same terms.
    """

    run: str
    round: int
    invited: tuple[int, ...]
    dropouts: float
    colluders: float = 0.0
    attempt: int = 0

    def __post_init__(self) -> None:
        if list(self.invited) != sorted(set(self.invited)) or not all(0 <= c < 2**32 for c in self.invited):
            raise FedloomError("the clients of a secure sum need different numbers, from 0 and in ascending order.")
        if not (0 <= self.round < 2**64 and 0 <= self.attempt < 2**64):
            raise FedloomError(f"round={self.round}, attempt={self.attempt}: both count from 0.")
        _ = self.plan  # refuses impossible shares now

    @cached_property
    def plan(self) -> NeighbourPlan:
        """The number of neighbours, and the threshold of shares."""
        return plan_neighbours(len(self.invited), self.dropouts, self.colluders)

    @property
    def threshold(self) -> int:
        """How many shares give a secret back."""
        return self.plan.threshold

    @cached_property
    def quorum(self) -> int:
        """The fewest clients whose sum may be opened."""
        return len(self.invited) - count_of(self.dropouts, len(self.invited))

    @property
    def fewest_honest(self) -> int:
        """The fewest clients in an opened sum that do not help the server."""
        return self.quorum - count_of(self.colluders, len(self.invited))

    @cached_property
    def about(self) -> bytes:
        """The digest of the terms."""
        numbers = b"".join(client.to_bytes(4, "big") for client in self.invited)
        shares = f"{self.dropouts!r} {self.colluders!r}".encode()
        counts = self.round.to_bytes(8, "big") + self.attempt.to_bytes(8, "big")
        return digest(b"fedloom secure sum 1", self.run.encode(), counts, numbers, shares)

    def neighbours(self, client: int) -> tuple[int, ...]:
        """The clients that one client shares masks with."""
        self.check_invited(client)
        return self._neighbours[client]

    def check_invited(self, client: int) -> None:
        """Refuse a client that is not of this sum."""
        if client not in self._neighbours:
            raise RefusedMessage(f"client {client} was not invited to this secure sum.")

    @cached_property
    def _neighbours(self) -> dict[int, tuple[int, ...]]:
        return neighbours_by_client(self.invited, self.plan.degree, self.about)
