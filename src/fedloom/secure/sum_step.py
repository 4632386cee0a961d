"""A step of the channel that lets only sums leave: the server learns the sum over clients, and no single row.

It is the last step. A client's half multiplies its change by its weight, codes both as one row, and hides that row;
the halves of server and clients then talk in phases until the server has the sum. In a simulation both halves run in
one process, in a deployment each on its own machine: the phases and their bytes are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.privacy import PlannedRun
from fedloom.core.selector import Draws

RARE = 1e-3
"""The chance that a run may have of a round that is too small for a sum."""
ROWS = "rows"
"""The phase in which clients train and send their hidden rows."""


@dataclass(frozen=True)
class SumSession:
    """What everybody knows of one sum.

    Args:
        turn: How often these clients were already asked in this round.
        ids: The clients that are asked.
        most: The largest weight that a client may have.
        message: The digest of what all of them start from: one sum is of changes of one model.
    """

    run: str
    round: int
    turn: int
    ids: tuple[int, ...]
    most: int
    message: bytes = b""


@dataclass(frozen=True)
class SumPhase:
    """One exchange between the halves.

    Args:
        name: The name of the phase.
        each: What each client gets; only these clients are asked.
    """

    name: str
    each: Mapping[int, Mapping[str, Tensor]]


@dataclass(frozen=True)
class Total:
    """A sum.

    Args:
        row: The sum of the coded rows.
        ids: The clients in it.
    """

    row: Tensor
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Decoded:
    """What is in a sum.

    Args:
        values: The sum over clients of weight times change, divided by the session's largest weight.
        weight: The sum of their weights.
        scaled: How many of them sent a smaller change than they had, since it did not fit.
    """

    values: Tensor
    weight: int
    scaled: int


Identify = Callable[[int, bytes], bytes | None]
"""Returns the long-term public key of a client that introduces itself, or None if it is not that client."""


def identify_all(identify: Identify, introductions: Mapping[int, bytes]) -> dict[int, bytes]:
    """The public keys of clients that are who they say they are.

    Args:
        identify: Finds the public key of one.
        introductions: What they introduced themselves with, by their numbers.
    """
    keys = {client: identify(client, text) for client, text in introductions.items()}
    return {client: key for client, key in keys.items() if key is not None}


@dataclass(frozen=True)
class SumKeys:
    """The keys of a client.

    Args:
        private: Its long-term private key.
        introduction: What it introduces itself with.
        identify: Finds the public keys of others.
        secret: What all clients share.
    """

    private: bytes
    introduction: bytes
    identify: Identify
    secret: bytes = b""


@dataclass(frozen=True)
class ServerKeys:
    """What the server has.

    Args:
        identify: Finds the public keys of clients.
        public: Its part of what all clients share.
    """

    identify: Identify
    public: bytes = b""


@dataclass(frozen=True)
class Opening:
    """What the server learns of a sum, once a client has done its last part.

    Args:
        clients: The clients whose rows are in the sum, ascending.
        total: The sum itself, where a client sees it.
    """

    clients: tuple[int, ...]
    total: bytes = b""


class ClientHalf(Protocol):
    """A client's half of one sum."""

    opening: Opening | None
    """What the server learns if this answer is sent; None before the last phase."""

    def answer(self, phase: str, got: Mapping[str, Tensor], row: Tensor | None) -> dict[str, Tensor]:
        """What the client answers in a phase; a ``FedloomError`` says why it does not.

        Args:
            got: What the server sent it.
            row: Its coded row, in the phase ``rows``.
        """


ServerHalf = Generator[SumPhase, Mapping[int, Mapping[str, Tensor]], Total]
"""The server's half: it yields a phase, gets the answers of those who answered, and returns the sum."""


@dataclass(frozen=True)
class SumStep(ChannelStep):
    """The base of steps that let only sums leave. Its settings are its fields."""

    is_last: ClassVar[bool] = True
    grants: ClassVar[Collection[Fact]] = (Fact.ADDABLE,)
    needs: ClassVar[Facts] = {
        Fact.ONLY_SUMS: "lets only sums of replies leave: use fedavg, fedprox, fedrep, scaffold, fld, dsfl or fedharm, "
        "or leave the step out; a method of your own that uses nothing but replies.mean says so with grants = "
        "(Fact.ONLY_MEANS,)",
        Fact.ALL_ANSWER: "adds the updates of all clients that it asked: leave out one of the two",
        Fact.ADDABLE: "adds rows as they are",
        Fact.SAME_START: "adds changes of one model, of which all clients start from the same bytes: leave out one of "
        "the two",
        Fact.BLIND_DRAW: "hides what single clients have, and does not hide what a selector asks them: use selection "
        "random or poisson",
    }
    least: ClassVar[int] = 2
    """The fewest clients in any sum: the sum of one is its row."""
    first_phase: ClassVar[str] = ROWS
    """The name of the phase that a sum begins with."""
    decrypting_phase: ClassVar[str] = ""
    """The name of the phase in which a client decrypts what it has not agreed to yet, if there is one."""

    def _derived_facts(self) -> tuple[Facts, Facts]:
        """What other steps need, but for updates: statistics are added as well, if they need no noise."""
        needs, breaks = super()._derived_facts()
        added = {fact: why for fact, why in needs.items() if fact is not Fact.UPDATES or self.covers_replies}
        return added, breaks

    def check_rounds(self, plan: PlannedRun) -> None:
        """Refuse draws of which some may be too small for a sum."""
        self.check_draws(plan.draws, plan.clients, plan.rounds)

    def check_draws(self, draws: Draws | None, clients: int, rounds: int) -> None:
        """Refuse draws of which some may be too small for a sum.

        Args:
            draws: How the clients of a round are drawn; None if nothing is known of that.
            clients: How many there are to draw from.
            rounds: How many rounds there are.
        """
        rate = None if draws is None else draws.rate
        if rate is None:
            return
        least = max(self.least, getattr(self, "least_clients", 0))
        chances = (math.comb(clients, few) * rate**few * (1 - rate) ** (clients - few) for few in range(least))
        small = sum(chances)
        if rounds * small > RARE:
            raise FedloomError(
                f"{type(self).__name__.lower()} needs {least} clients in a round, and the selection draws fewer of "
                f"{clients} with a probability of {small:.2g}: raise selection.rate, or draw a fixed number (selection "
                "random)."
            )

    def check_session(self, session: SumSession) -> None:
        """Raise a ``FedloomError`` for clients whose sum would hide nothing, or cannot be made, before they train.

        Args:
            session: What is known of the sum.
        """
        if len(session.ids) < self.least:
            raise FedloomError(
                f"a sum of {len(session.ids)} client hides nothing: let a round have at least {self.least} clients."
            )

    def code(self, values: Tensor, weights: Tensor, session: SumSession, random: Sequence[torch.Generator]) -> Tensor:
        """Rows that can be added: each holds a client's values and its weight.

        Args:
            values: A row per client: its change times its weight, divided by the session's largest weight.
            session: What is known of the sum.
            random: A generator per client, for rounding.
        """
        raise TypeError(f"{type(self).__name__} has no code")

    def decode_total(self, total: Total, session: SumSession) -> Decoded:
        """What is in a sum of coded rows.

        Args:
            total: The sum.
            session: What is known of it.
        """
        raise TypeError(f"{type(self).__name__} has no decode_total")

    def hidden_form(self, dtype: torch.dtype, shape: tuple[int, ...]) -> tuple[torch.dtype, tuple[int, ...]]:
        """Type and shape of a hidden row as it is sent; masks change neither.

        Args:
            dtype: The type of the coded row.
            shape: Its shape: one row.
        """
        return dtype, shape

    def server_half(self, session: SumSession, keys: ServerKeys) -> ServerHalf:
        """The server's half of a sum.

        Args:
            session: What is known of it.
        """
        raise TypeError(f"{type(self).__name__} has no server_half")

    def client_half(self, session: SumSession, client: int, keys: SumKeys) -> ClientHalf:
        """A client's half of a sum.

        Args:
            session: What is known of it.
            keys: Its own.
        """
        raise TypeError(f"{type(self).__name__} has no client_half")

    def make_shared_secret(self) -> tuple[bytes, bytes] | None:
        """What clients share and the server must not have, and the server's part of it; None if none."""
        return None

    def simulate_keys(self, clients: Sequence[int]) -> tuple[ServerKeys, Mapping[int, SumKeys]]:
        """Keys for a simulation."""
        secret, public = self.make_shared_secret() or (b"", b"")
        return ServerKeys(_nobody, public), dict.fromkeys(clients, SumKeys(b"", b"", _nobody, secret))


def _nobody(*_: object) -> bytes | None:
    """Where clients have no keys of their own."""
    return None


class RefusedMessage(FedloomError, ValueError):  # noqa: N818
    """A message of a secure sum that cannot be what it claims to be."""
