"""The client's half of a secure sum.

Five phases, each once and in this order: ``advertise`` keys, ``share`` the secrets that undo masks, ``mask`` the row,
``confirm`` who survived, ``reveal`` shares (Bonawitz et al., CCS 2017, https://eprint.iacr.org/2017/281, Figure 4).
What a client refuses, it refuses for good: it answers no further phase of that sum.

What protects a client, also from a server that lies:

- keys count only with the signature of a client that it knows, over the terms of the sum;
- of another client it reveals the share of the mask's key or of the seed, by one list of survivors, once;
- it reveals nothing until ``threshold`` clients, its neighbours and itself, have confirmed that very list. A
  confirmation is a code under a key that two neighbours share, so the server can neither make nor change one;
- the sum of fewer clients than the quorum is not opened.

What the sum itself tells about a client is not hidden: that is for noise to hide.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from fedloom.secure import primitives, shamir
from fedloom.secure.identity import RoundKeys, read_advertisement, write_advertisement
from fedloom.secure.masks import MaskAdder, pair_key, pair_sign, self_key
from fedloom.secure.messages import PARCEL, SHORT_DIGEST, check_length, enumerate_clients, short_digest
from fedloom.secure.quantise import Words
from fedloom.secure.sum_step import RefusedMessage
from fedloom.secure.terms import SumTerms

LETTERS = ("share", "confirmation")
"""What two neighbours send each other by way of the server."""
PHASES = ("advertise", "share", "mask", "confirm", "reveal", "nothing more")
P = ParamSpec("P")
T = TypeVar("T")


def _phase(
    method: Callable[Concatenate[SecureClient, P], T],
) -> Callable[Concatenate[SecureClient, P], T]:
    """A method that is called once, when its phase is next; after a refusal no phase is."""

    @functools.wraps(method)
    def play(self: SecureClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        phase = method.__name__
        if self._phase != phase:
            raise RefusedMessage(f"client {self.client} was asked to {phase}, but its next phase is: {self._phase}.")
        self._phase = PHASES[-1]
        try:
            answer = method(self, *args, **kwargs)
        except RefusedMessage:
            raise
        except ValueError as error:
            raise RefusedMessage(f"client {self.client} cannot {phase}: {error}.") from None
        self._phase = PHASES[PHASES.index(phase) + 1]
        return answer

    return play


class SecureClient:
    """One client in one secure sum.

    Args:
        terms: The terms of the sum.
        client: The client's number.
        private: Its long-term private key.
        roster: The trusted public keys of all clients, by their numbers.
        seed: 32 secret bytes that all its secrets of this sum come from; new ones of the operating system by default.
    """

    def __init__(
        self, terms: SumTerms, client: int, private: bytes, roster: Mapping[int, bytes], seed: bytes | None = None
    ) -> None:
        self.terms, self.client, self.neighbours = terms, client, terms.neighbours(client)
        self._private, self._roster = private, roster
        self._seed = os.urandom(primitives.KEY) if seed is None else seed
        self._phase = PHASES[0]
        self._keys: dict[int, bytes] = {}  # of the neighbours that advertised: the public keys of their masks
        self._pair_keys: dict[int, bytes] = {}  # the keys of what this client and such a neighbour send each other
        self._seed_shares: dict[int, bytes] = {}  # of the seed of its own mask
        self._shares: dict[int, bytes] = {}  # of the neighbours that shared: both of their shares
        self._survivors: list[int] = []

    @_phase
    def advertise(self) -> bytes:
        """The client's public keys of this sum, signed."""
        self._seed_shares = self._split("self mask")
        keys = RoundKeys(
            cipher=primitives.ExchangeKey(self._secret("cipher key")).public,
            mask=primitives.ExchangeKey(self._secret("mask key")).public,
            seed=short_digest(self._secret("self mask")),
            own_share=short_digest(self._seed_shares[self.client]),
        )
        return write_advertisement(keys, self.terms.about, self.client, self._private)

    @_phase
    def share(self, advertisements: Mapping[int, bytes]) -> dict[int, bytes]:
        """For each neighbour that advertised, encrypted shares of the two secrets that undo this client's masks.

        Args:
            advertisements: What clients advertised, by their numbers. Clients that are not neighbours may be left out,
                and are not looked at.
        """
        for client in advertisements:
            self.terms.check_invited(client)
        peers = [client for client in self.neighbours if client in advertisements]
        self._check_enough(peers, "advertised keys")
        mine = primitives.ExchangeKey(self._secret("cipher key"))
        for peer in peers:
            public = read_advertisement(advertisements[peer], self.terms.about, peer, self._roster)
            self._keys[peer] = public.mask
            self._pair_keys[peer] = self._derive_pair_keys(peer, mine.agree(public.cipher))
        seeds, keys = self._seed_shares, self._split("mask key")
        return {
            peer: short_digest(seeds[peer])
            + short_digest(keys[peer])
            + primitives.encrypt(self._pair_key("share", self.client, peer), seeds[peer] + keys[peer], self.terms.about)
            for peer in peers
        }

    @_phase
    def mask(self, shares: Mapping[int, bytes], values: Words) -> Words:
        """The client's row under its own mask and those towards the neighbours that have shared.

        Args:
            shares: What neighbours shared with this client, by their numbers.
            values: The row: ``uint32`` or ``uint64``.
        """
        if values.ndim != 1 or values.dtype not in (np.uint32, np.uint64):
            raise RefusedMessage(
                f"a secure sum adds rows of uint32 or uint64, got {values.dtype} of shape {values.shape}."
            )
        self._check_enough(shares, "shared secrets")
        for peer, parcel in sorted(shares.items()):
            self._shares[peer] = self._open(peer, parcel)
        row, adder, about = values.copy(), MaskAdder(len(values), values.dtype), self.terms.about
        adder.add(row, self_key(self._secret("self mask"), about, self.client), 1)
        mine = primitives.ExchangeKey(self._secret("mask key"))
        for peer in self._shares:
            key = pair_key(mine, self._keys[peer], about, self.client, peer)
            adder.add(row, key, pair_sign(self.client, peer))
        return row

    @_phase
    def confirm(self, survivors: Sequence[int]) -> dict[int, bytes]:
        """For each neighbour among the survivors, a code that says which list this client was told.

        Args:
            survivors: The clients whose rows are in the sum, ascending.
        """
        self._survivors = list(survivors)
        alive = set(self._survivors)
        if self._survivors != sorted(alive) or not alive <= set(self.terms.invited):
            raise RefusedMessage("the list of survivors is not an ascending list of invited clients.")
        if self.client not in alive:
            raise RefusedMessage(f"client {self.client} has sent its row and is not among the survivors.")
        if len(alive) < self.terms.quorum:
            raise RefusedMessage(
                f"{len(alive)} clients survived, and the sum of fewer than {self.terms.quorum} is not opened."
            )
        strangers = alive & set(self.neighbours) - set(self._shares)
        if strangers:
            raise RefusedMessage(
                f"these survivors have never shared their secrets with client {self.client}: "
                f"{enumerate_clients(strangers)}."
            )
        peers = [peer for peer in self._shares if peer in alive]
        self._check_enough(peers, "survived")
        text = self._survivors_text()
        return {peer: self._confirmation(self.client, peer, text) for peer in peers}

    @_phase
    def reveal(self, confirmations: Mapping[int, bytes]) -> dict[int, bytes]:
        """A share of every neighbour that has shared and of this client: of a survivor its seed's, else its key's.

        Args:
            confirmations: What the neighbours that survived confirmed to this client, by their numbers.
        """
        self._check_enough(confirmations, "confirmed the survivors")
        alive, text = set(self._survivors), self._survivors_text()
        for peer, code in confirmations.items():
            if peer not in alive or peer not in self._shares:
                raise RefusedMessage(f"client {peer} confirmed the survivors without being a neighbour among them.")
            if not primitives.is_same(code, self._confirmation(peer, self.client, text)):
                raise RefusedMessage(f"client {peer} was given other survivors: client {self.client} reveals nothing.")
        shares = {
            peer: both[: shamir.SHARE] if peer in alive else both[shamir.SHARE :] for peer, both in self._shares.items()
        }
        return {**shares, self.client: self._seed_shares[self.client]}

    def _check_enough(self, peers: Sequence[int] | Mapping[int, bytes], have: str) -> None:
        if len(peers) + 1 < self.terms.threshold:
            raise RefusedMessage(
                f"{len(peers) + 1} of client {self.client} and its neighbours have {have}, and the sum needs "
                f"{self.terms.threshold}."
            )

    def _secret(self, purpose: str) -> bytes:
        """A secret of this client in this sum."""
        return primitives.derive(self._seed, purpose.encode() + self.terms.about)

    def _derive_pair_keys(self, peer: int, secret: bytes) -> bytes:
        """A key for each kind of letter and each direction, from what this client and a neighbour agreed on."""
        low, high = sorted((self.client, peer))
        purpose = b"fedloom letters" + self.terms.about + low.to_bytes(4, "big") + high.to_bytes(4, "big")
        return primitives.derive(secret, purpose, 2 * len(LETTERS) * primitives.KEY)

    def _pair_key(self, letter: str, sender: int, receiver: int) -> bytes:
        """The key of what one of this client and a neighbour sends to the other."""
        keys = self._pair_keys[receiver if sender == self.client else sender]
        place = primitives.KEY * (2 * LETTERS.index(letter) + (sender > receiver))
        return keys[place : place + primitives.KEY]

    def _split(self, purpose: str) -> dict[int, bytes]:
        """The shares of a secret, for all neighbours and this client: the same whenever it is asked."""
        needed = np.zeros(shamir.count_random_bytes(self.terms.threshold), dtype=np.uint8)
        stream = np.empty(len(needed) + 16, dtype=np.uint8)
        primitives.fill_stream(self._secret(f"{purpose} polynomial"), needed, stream)
        randomness = stream[: len(needed)].tobytes()
        return shamir.split(self._secret(purpose), [*self.neighbours, self.client], self.terms.threshold, randomness)

    def _open(self, peer: int, parcel: bytes) -> bytes:
        """The shares of a neighbour, decrypted."""
        if peer not in self._pair_keys:
            raise RefusedMessage(f"client {peer} shared its secrets without having advertised keys as a neighbour.")
        check_length(parcel, PARCEL, f"what client {peer} shared")
        digests, text = parcel[: 2 * SHORT_DIGEST], parcel[2 * SHORT_DIGEST :]
        both = primitives.decrypt(self._pair_key("share", peer, self.client), text, self.terms.about)
        if both is None:
            raise RefusedMessage(
                f"what client {peer} shared with client {self.client} cannot be decrypted: it was changed or swapped."
            )
        if digests != short_digest(both[: shamir.SHARE]) + short_digest(both[shamir.SHARE :]):
            raise RefusedMessage(f"the digests of what client {peer} shared with client {self.client} are wrong.")
        return both

    def _survivors_text(self) -> bytes:
        return self.terms.about + b"".join(client.to_bytes(4, "big") for client in self._survivors)

    def _confirmation(self, sender: int, receiver: int, survivors: bytes) -> bytes:
        """The code by which one client confirms the survivors to another."""
        return primitives.authenticate(self._pair_key("confirmation", sender, receiver), survivors)
