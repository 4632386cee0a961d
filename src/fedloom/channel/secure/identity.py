"""Who takes part: long-term Ed25519 keys, a roster of them that the operator signed, and signed keys of a round.

The server could invent clients and know their masks. So every client has the roster, signed by the operator whose
public key it trusts, and takes the keys of a round only with the signature of a client of the roster, over the terms of
this very sum.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from fedloom.channel.secure.primitives import KEY, SIGNATURE, digest, is_signed, sign
from fedloom.channel.secure.refusal import RefusedMessage
from fedloom.core.errors import FedloomError

ADVERTISEMENT = 3 * KEY + SIGNATURE
"""The bytes of an advertisement."""


def new_signing_key() -> bytes:
    """A new private key, from the operating system's generator."""
    return os.urandom(KEY)


def sign_roster(operator: bytes, deployment: str, keys: Mapping[int, bytes]) -> bytes:
    """A roster as bytes: the public key of every client, signed.

    Args:
        operator: The operator's private key.
        deployment: Names the deployment.
        keys: The clients' public keys by their numbers.
    """
    if any(len(key) != KEY for key in keys.values()):
        raise FedloomError(f"a public key of a roster has {KEY} bytes.")
    if len(set(keys.values())) != len(keys):
        raise FedloomError("two clients of a roster have the same public key: make a key for each.")
    entries = b"".join(client.to_bytes(4, "big") + key for client, key in sorted(keys.items()))
    return sign(operator, _roster_text(deployment, entries)) + entries


def read_roster(data: bytes, operator: bytes, deployment: str) -> dict[int, bytes]:
    """The clients' public keys of a signed roster, by their numbers.

    Args:
        data: The roster.
        operator: The operator's public key.
        deployment: The deployment that it must be for.
    """
    signature, entries = data[:SIGNATURE], data[SIGNATURE:]
    if len(signature) != SIGNATURE or len(entries) % (4 + KEY):
        raise RefusedMessage(f"{len(data)} bytes are no roster of clients' keys.")
    if not is_signed(operator, _roster_text(deployment, entries), signature):
        raise RefusedMessage(f"the roster of clients' keys is not signed by the operator of {deployment!r}.")
    keys = {
        int.from_bytes(entries[at : at + 4], "big"): entries[at + 4 : at + 4 + KEY]
        for at in range(0, len(entries), 4 + KEY)
    }
    if len(keys) * (4 + KEY) != len(entries):
        raise RefusedMessage("the roster of clients' keys names a client twice.")
    return keys


def _roster_text(deployment: str, entries: bytes) -> bytes:
    return b"fedloom roster" + digest(deployment.encode(), entries)


@dataclass(frozen=True)
class RoundKeys:
    """What a client makes public for one sum.

    Args:
        cipher: The public key that shares for this client are encrypted with.
        mask: The public key of the masks that it shares with neighbours.
        commitment: The digest of the seed of its own mask, to recognise the seed by.
    """

    cipher: bytes
    mask: bytes
    commitment: bytes


def write_advertisement(keys: RoundKeys, about: bytes, client: int, private: bytes) -> bytes:
    """A client's round keys with its signature.

    Args:
        keys: The keys.
        about: The digest of the sum's terms.
        client: The number of the client.
        private: Its long-term private key.
    """
    text = keys.cipher + keys.mask + keys.commitment
    return text + sign(private, _advertisement_text(text, about, client))


def read_advertisement(data: bytes, about: bytes, client: int, roster: Mapping[int, bytes]) -> RoundKeys:
    """The round keys of a client, if the client that the roster knows has signed them for this sum.

    Args:
        data: The advertisement.
        about: The digest of the sum's terms.
        client: The number of the client that it is said to be from.
        roster: The trusted public keys of all clients.
    """
    if client not in roster:
        raise RefusedMessage(f"client {client} is not on the roster that the operator signed.")
    if len(data) != ADVERTISEMENT:
        raise RefusedMessage(f"the advertisement of client {client} has {len(data)} bytes instead of {ADVERTISEMENT}.")
    text, signature = data[: 3 * KEY], data[3 * KEY :]
    if not is_signed(roster[client], _advertisement_text(text, about, client), signature):
        raise RefusedMessage(
            f"the keys of client {client} are not signed by it for this round: they were changed, replayed or invented."
        )
    return RoundKeys(text[:KEY], text[KEY : 2 * KEY], text[2 * KEY :])


def _advertisement_text(keys: bytes, about: bytes, client: int) -> bytes:
    return b"fedloom round keys" + about + client.to_bytes(4, "big") + keys
