"""Secure sums: clients hide their rows under masks that cancel, and the server learns the sum of them and no row.

Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017,
https://eprint.iacr.org/2017/281; Bell et al., CCS 2020 (SecAgg+), https://eprint.iacr.org/2020/704, where clients are
many. A client's change, times its weight, becomes a row of integers (``quantise.py``); its weight, and whether its row
had to be made smaller to fit, are beside them in the same sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, Positive, ShareBelowOne
from fedloom.core.task import Task
from fedloom.secure.quantise import Grid, tensor_of_words, words_of_tensor
from fedloom.secure.sum_step import ClientHalf, Decoded, ServerHalf, ServerKeys, SumKeys, SumSession, SumStep, Total

if TYPE_CHECKING:
    from fedloom.secure.terms import SumTerms  # it needs the library cryptography

HEAD = 2
"""Whole numbers before the values: the weight, and whether the row was scaled."""


@dataclass(frozen=True)
class MaskedSum(SumStep):
    """The base of sums under masks that cancel; ``grid`` says which integers stand for numbers.

    Args:
        dropouts: The largest share of a round's clients that may stop answering in it; with more of them the round is
            played again.
        colluders: The largest share that may help the server.
        least_clients: The fewest clients that a sum is asked of; a site takes part in no smaller one.
    """

    first_phase: ClassVar[str] = "advertise"

    bits: Annotated[int, Ge(2), Le(32)] = 20
    dropouts: ShareBelowOne = 1 / 3
    colluders: ShareBelowOne = 0.0
    least_clients: Count = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grid(self.least)
        if not 2 * self.dropouts + self.colluders < 1:
            raise FedloomError(
                f"dropouts={self.dropouts:g}, colluders={self.colluders:g}: twice the dropouts and the colluders must "
                "be fewer than all clients, or a server could open single updates."
            )
        if self.least_clients < self.least:
            raise FedloomError(f"least_clients={self.least_clients}: the sum of fewer than {self.least} hides nothing.")

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse also what the grid cannot hold."""
        super().check(algorithm, task, before)
        self.grid(task.federation.clients)

    def check_session(self, session: SumSession) -> None:
        """Refuse also too few clients, and those of which too many may drop out or collude."""
        super().check_session(session)
        if len(session.ids) < self.least_clients:
            raise FedloomError(
                f"a sum of {len(session.ids)} clients is smaller than least_clients = {self.least_clients}: let more "
                "take part in a round."
            )
        self.terms(session)

    def grid(self, clients: int) -> Grid:
        """The integers that stand for numbers.

        Args:
            clients: How many rows are added at most.
        """
        raise TypeError(f"{type(self).__name__} has no grid")

    def code(self, values: Tensor, weights: Tensor, session: SumSession, random: Sequence[torch.Generator]) -> Tensor:
        """A row of integers per client: its weight, whether it was scaled, and its values."""
        grid, rows = self.grid(len(session.ids)), []
        for row, weight, generator in zip(values, weights.tolist(), random, strict=True):
            integers, scaled = grid.quantise(row[None], generator)
            rows.append(tensor_of_words(grid.pack([weight, int(scaled[0])], integers[0])))
        return torch.stack(rows)

    def decode_total(self, total: Total, session: SumSession) -> Decoded:
        """Numbers of integers, their weight, and how many rows were scaled."""
        grid = self.grid(len(session.ids))
        (weight, scaled), values = grid.unpack(words_of_tensor(total.row), HEAD)
        return Decoded(grid.restore(values), weight, scaled)

    def terms(self, session: SumSession) -> SumTerms:
        """The terms of a sum.

        Args:
            session: What is known of it.
        """
        # A server that told clients different weights or models would get a sum in which only one of them counts.
        agreed = f"{session.run} {session.most} {session.message.hex()}"
        return self._terms(agreed, session.round, tuple(sorted(session.ids)), session.turn)

    def _terms(self, run: str, number: int, invited: tuple[int, ...], turn: int) -> SumTerms:
        from fedloom.secure.terms import SumTerms

        return SumTerms(run, number, invited, self.dropouts, self.colluders, turn)

    def server_half(self, session: SumSession, keys: ServerKeys) -> ServerHalf:
        """The server's half of the protocol."""
        from fedloom.secure.halves import masked_sum

        return masked_sum(self.terms(session), keys)

    def client_half(self, session: SumSession, client: int, keys: SumKeys) -> ClientHalf:
        """A client's half: it sends its row under masks."""
        from fedloom.secure.halves import MaskedHalf

        return MaskedHalf(self.terms(session), client, keys)

    def simulate_keys(self, clients: Sequence[int]) -> tuple[ServerKeys, Mapping[int, SumKeys]]:
        """A key for each client, which all know of each other."""
        from fedloom.secure.identity import new_signing_key
        from fedloom.secure.primitives import signing_public

        private = {client: new_signing_key() for client in clients}
        roster = {client: signing_public(key) for client, key in private.items()}

        def identify(client: int, _: bytes) -> bytes | None:
            return roster.get(client)

        return ServerKeys(identify), {client: SumKeys(private[client], b"", identify) for client in clients}


@dataclass(frozen=True)
class SecureSum(MaskedSum):
    """Let the server learn nothing of its clients but the sum of their updates, by masks that cancel.

    Args:
        bits: The bits of a number.
        dropouts: The largest share of a round's clients that may stop answering in it; with more of them the round is
            played again.
        colluders: The largest share that may help the server.
        least_clients: The fewest clients that a sum is asked of; a site takes part in no smaller one.
        limit: The largest magnitude of a number in an update; an update beyond it is made smaller as a whole, and the
            record says how many were.
    """

    limit: Positive = 2.0

    def grid(self, clients: int) -> Grid:
        """The integers that stand for numbers."""
        return Grid(self.bits, self.limit, clients)
