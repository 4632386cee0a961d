"""The parties of a secure sum, with keys that are the same in every test."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedloom.channel.secure.client import SecureClient
from fedloom.channel.secure.local_round import SecureSum, play_sum
from fedloom.channel.secure.primitives import signing_public
from fedloom.channel.secure.server import SecureServer
from fedloom.channel.secure.terms import SumTerms


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
    ) -> SecureSum:
        return play_sum(self.server(), list(self.clients().values()), rows, dropouts)


def parties(clients: int = 6, dropouts: float = 0.34, colluders: float = 0.0, **terms: Any) -> Parties:
    """The parties of a small sum; their numbers begin at 10."""
    return Parties(SumTerms("a run", 7, tuple(range(10, 10 + clients)), dropouts, colluders, **terms))
