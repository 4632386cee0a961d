"""Secure sums in one process, and parties with keys that are the same in every test."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fedloom.secure.client import SecureClient
from fedloom.secure.primitives import signing_public
from fedloom.secure.quantise import Words
from fedloom.secure.server import SecureServer
from fedloom.secure.sum_step import RefusedMessage
from fedloom.secure.terms import SumTerms

T = TypeVar("T")
NUMBER = 4
"""The bytes of a client's number before a message."""


@dataclass(frozen=True)
class PlayedSum:
    """What a secure sum gave.

    Args:
        total: The sum of the survivors' rows.
        survivors: The clients whose rows are in it.
        sent: The bytes that each client sent, rows and all phases.
        received: The bytes that each client received in the phases of the sum.
    """

    total: Words
    survivors: list[int]
    sent: dict[int, int]
    received: dict[int, int]


def play_sum(
    server: SecureServer,
    clients: Sequence[SecureClient],
    rows: Mapping[int, Words],
    dropouts: Mapping[str, Collection[int]] | None = None,
) -> PlayedSum:
    """Play all phases of a secure sum.

    Args:
        server: The server's half.
        clients: The clients' halves.
        rows: The clients' rows, by their numbers.
        dropouts: The clients that drop out before they answer a phase, by the name of the phase.
    """
    halves = {half.client: half for half in clients}
    sent, received = dict.fromkeys(halves, 0), dict.fromkeys(halves, 0)
    gone: set[int] = set()

    def answers(phase: str, asked: Collection[int], ask: Callable[[SecureClient], T]) -> dict[int, T]:
        """What the clients that are still there answer; one that refuses is gone."""
        gone.update((dropouts or {}).get(phase, ()))
        given = {}
        for client in asked:
            if client not in gone:
                try:
                    given[client] = ask(halves[client])
                except RefusedMessage as error:
                    server.refused[client] = str(error)
        return given

    def count(ledger: dict[int, int], messages: Mapping[int, Mapping[int, bytes]]) -> None:
        for client, texts in messages.items():
            ledger[client] += sum(NUMBER + len(text) for text in texts.values())

    advertised = answers("advertise", halves, lambda half: half.advertise())
    count(sent, {client: {client: text} for client, text in advertised.items()})
    keys = server.route_advertisements(advertised)
    count(received, keys)
    shares = answers("share", keys, lambda half: half.share(keys[half.client]))
    count(sent, shares)
    parcels = server.route_shares(shares)
    count(received, parcels)

    def send_row(half: SecureClient) -> None:
        row = half.mask(parcels[half.client], rows[half.client])
        sent[half.client] += row.nbytes
        server.add(half.client, row)

    answers("mask", parcels, send_row)
    survivors = server.survivors()
    confirmed = answers("confirm", survivors, lambda half: half.confirm(survivors))
    count(sent, confirmed)
    codes = server.route_confirmations(confirmed)
    count(received, {client: dict.fromkeys(survivors, b"") for client in survivors})
    count(received, codes)
    revealed = answers("reveal", codes, lambda half: half.reveal(codes[half.client]))
    count(sent, revealed)
    return PlayedSum(server.unmask(revealed), survivors, sent, received)


def fixed_key(name: str) -> bytes:
    """32 bytes that depend on a name only."""
    return hashlib.sha256(name.encode()).digest()


@dataclass(frozen=True)
class Parties:
    """All clients and the server of one secure sum."""

    terms: SumTerms

    @property
    def roster(self) -> dict[int, bytes]:
        return {client: signing_public(fixed_key(f"identity {client}")) for client in self.terms.invited}

    def server(self) -> SecureServer:
        return SecureServer(self.terms, self.roster)

    def client(self, number: int) -> SecureClient:
        seed = fixed_key(f"seed {number}")
        return SecureClient(self.terms, number, fixed_key(f"identity {number}"), self.roster, seed)

    def clients(self) -> dict[int, SecureClient]:
        roster = self.roster
        return {
            number: SecureClient(
                self.terms, number, fixed_key(f"identity {number}"), roster, fixed_key(f"seed {number}")
            )
            for number in self.terms.invited
        }

    def rows(self, width: int = 9, dtype: str = "uint32") -> dict[int, np.ndarray[Any, Any]]:
        """A random row of each client."""
        rng = np.random.default_rng(0)
        most = np.iinfo(dtype).max
        return {n: rng.integers(0, most, width, dtype=dtype, endpoint=True) for n in self.terms.invited}

    def play(
        self, rows: Mapping[int, np.ndarray[Any, Any]], dropouts: Mapping[str, Collection[int]] | None = None
    ) -> PlayedSum:
        return play_sum(self.server(), list(self.clients().values()), rows, dropouts)


def parties(clients: int = 6, dropouts: float = 0.34, colluders: float = 0.0, **terms: Any) -> Parties:
    """The parties of a small sum; their numbers begin at 10."""
    return Parties(SumTerms("a run", 7, tuple(range(10, 10 + clients)), dropouts, colluders, **terms))
