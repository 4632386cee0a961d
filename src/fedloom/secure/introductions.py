"""Introductions of clients: by what a client proves whose long-term key it has, such as a signed certificate.

They have different lengths, unlike the other messages of a sum.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from fedloom.secure.refusal import RefusedMessage

_ENTRY = struct.Struct(">II")
"""The number of a client and the length of its introduction."""


def join_introductions(introductions: Mapping[int, bytes]) -> bytes:
    """Introductions as one text.

    Args:
        introductions: The introductions, by clients' numbers.
    """
    return b"".join(_ENTRY.pack(client, len(text)) + text for client, text in sorted(introductions.items()))


def part_introductions(text: bytes) -> dict[int, bytes]:
    """The introductions of a text.

    Args:
        text: What ``join_introductions`` made.
    """
    found, at = dict[int, bytes](), 0
    while at < len(text):
        if len(text) - at < _ENTRY.size:
            raise RefusedMessage("the introductions of a secure sum end in the middle of one.")
        client, length = _ENTRY.unpack_from(text, at)
        at += _ENTRY.size
        if length > len(text) - at or client in found:
            raise RefusedMessage("the introductions of a secure sum are cut off, or name a client twice.")
        found[client] = text[at : at + length]
        at += length
    return found
