"""How messages of a secure sum look: many of one length under the numbers of clients, and what is in a share.

``join`` and ``part`` make one text of a message per client and back. A share on its way is two digests, by which the
server recognises the shares later, and the encrypted shares themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from fedloom.secure.primitives import TAG
from fedloom.secure.shamir import SHARE
from fedloom.secure.sum_step import RefusedMessage

SHORT_DIGEST = 16
PARCEL = 2 * SHORT_DIGEST + 2 * SHARE + TAG
"""The bytes of what one client sends to another by way of the server."""


def join(messages: Mapping[int, bytes]) -> bytes:
    """Messages of one length as one text: their length, then each client's number and message.

    Args:
        messages: The messages by clients' numbers.
    """
    lengths = {len(message) for message in messages.values()}
    if len(lengths) > 1:
        raise ValueError(f"messages of one phase have one length, got {sorted(lengths)}")
    entries = (client.to_bytes(4, "big") + message for client, message in sorted(messages.items()))
    return lengths.pop().to_bytes(4, "big") + b"".join(entries) if lengths else b""


def part(text: bytes) -> dict[int, bytes]:
    """The messages of a text.

    Args:
        text: What ``join`` made.
    """
    if not text:
        return {}
    size = 4 + int.from_bytes(text[:4], "big")
    if len(text) < 4 + size or (len(text) - 4) % size:
        raise RefusedMessage(f"{len(text)} bytes are not messages of {size - 4} bytes each.")
    entries = [text[at : at + size] for at in range(4, len(text), size)]
    clients = [int.from_bytes(entry[:4], "big") for entry in entries]
    if clients != sorted(set(clients)):
        raise RefusedMessage("the messages of a phase are not in the order of their clients.")
    return {client: entry[4:] for client, entry in zip(clients, entries, strict=True)}


def short_digest(secret: bytes) -> bytes:
    """By what the server recognises a share or a seed that it has not seen: both are too random to be guessed.

    Args:
        secret: The share or the seed.
    """
    return hashlib.sha256(secret).digest()[:SHORT_DIGEST]


def check_length(message: bytes, length: int, what: str) -> None:
    """Refuse a message of another length.

    Args:
        length: The bytes that it must have.
        what: What a sentence calls it.
    """
    if len(message) != length:
        raise RefusedMessage(f"{what} has {len(message)} bytes instead of {length}.")


def enumerate_clients(clients: Iterable[int]) -> str:
    """Some clients in a sentence; of many, the first ten."""
    numbers = sorted(clients)
    return ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
