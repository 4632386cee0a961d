"""Who takes part: long-term Ed25519 keys, and keys of one sum that are signed with them.

The server could invent clients and know their masks. So a client takes the keys of a sum only with the signature of
another client that it knows, over the terms of this very sum. Its roster has the long-term keys of those it knows:
in a deployment the authority's certificates vouch for them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from fedloom.secure.messages import SHORT_DIGEST
from fedloom.secure.primitives import KEY, SIGNATURE, is_signed, sign
from fedloom.secure.sum_step import RefusedMessage

_TEXT = 2 * KEY + 2 * SHORT_DIGEST
ADVERTISEMENT = _TEXT + SIGNATURE
"""The bytes of an advertisement."""


def new_signing_key() -> bytes:
    """A new private key, from the operating system's generator."""
    return os.urandom(KEY)


@dataclass(frozen=True)
class RoundKeys:
    """What a client makes public for one sum.

    Args:
        cipher: The public key that shares for this client are encrypted with.
        mask: The public key of the masks that it shares with neighbours.
        seed: The digest of the seed of its own mask, to recognise the seed by.
        own_share: The digest of its own share of that seed.
    """

    cipher: bytes
    mask: bytes
    seed: bytes
    own_share: bytes


def write_advertisement(keys: RoundKeys, about: bytes, client: int, private: bytes) -> bytes:
    """A client's round keys with its signature.

    Args:
        about: The digest of the sum's terms.
        private: Its long-term private key.
    """
    text = keys.cipher + keys.mask + keys.seed + keys.own_share
    return text + sign(private, _advertisement_text(text, about, client))


def read_advertisement(data: bytes, about: bytes, client: int, roster: Mapping[int, bytes]) -> RoundKeys:
    """The round keys of a client, if the client that the roster knows has signed them for this sum.

    Args:
        data: The advertisement.
        about: The digest of the sum's terms.
        client: The number of the client that it claims to be from.
        roster: The trusted public keys of all clients.
    """
    if client not in roster:
        raise RefusedMessage(f"client {client} is not on the roster of known clients.")
    if len(data) != ADVERTISEMENT:
        raise RefusedMessage(f"the advertisement of client {client} has {len(data)} bytes instead of {ADVERTISEMENT}.")
    text, signature = data[:_TEXT], data[_TEXT:]
    if not is_signed(roster[client], _advertisement_text(text, about, client), signature):
        raise RefusedMessage(
            f"the keys of client {client} are not signed by it for this round: they were changed, replayed or invented."
        )
    digests = text[2 * KEY :]
    return RoundKeys(text[:KEY], text[KEY : 2 * KEY], digests[:SHORT_DIGEST], digests[SHORT_DIGEST:])


def _advertisement_text(keys: bytes, about: bytes, client: int) -> bytes:
    return b"fedloom round keys" + about + client.to_bytes(4, "big") + keys
