"""Both halves of a secure sum as phases: what the protocol's messages look like as tensors.

A client whose message cannot be read has dropped out; the protocol says whether the sum survives that.
"""

from __future__ import annotations

import logging
import os
import struct
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.secure.client import SecureClient
from fedloom.secure.messages import join, part
from fedloom.secure.quantise import Words, tensor_of_words, words_of_tensor
from fedloom.secure.server import SecureServer
from fedloom.secure.sum_step import (
    ROWS,
    Opening,
    RefusedMessage,
    ServerHalf,
    ServerKeys,
    SumKeys,
    SumPhase,
    Total,
    identify_all,
)
from fedloom.secure.terms import SumTerms

_ENTRY = struct.Struct(">II")
"""The number of a client and the length of its introduction."""

log = logging.getLogger("fedloom")

Answers = Mapping[int, Mapping[str, Tensor]]


def masked_sum(terms: SumTerms, keys: ServerKeys) -> ServerHalf:
    """The server's half: keys, shares of what undoes masks, rows, who is in the sum, and the shares that undo them."""
    roster: dict[int, bytes] = {}
    server = SecureServer(terms, roster)
    answers = yield SumPhase("advertise", {client: {} for client in terms.invited})
    introductions = _read_all(answers, "introduction", server)
    roster |= identify_all(keys.identify, introductions)
    known = {client: answers[client] for client in introductions}
    routed = server.route_advertisements(_read_all(known, "keys", server))
    answers = yield SumPhase(
        "share",
        {
            client: {
                "keys": _letters(join(peers)),
                "introductions": _letters(join_introductions({peer: introductions[peer] for peer in peers})),
            }
            for client, peers in routed.items()
        },
    )
    routed = server.route_shares(_part_all(answers, "shares", server))
    answers = yield SumPhase(ROWS, {client: {"shares": _letters(join(own))} for client, own in routed.items()})
    for client, words in _rows(answers, server).items():
        server.add(client, words)
    survivors = server.survivors()
    told = torch.tensor(survivors)
    answers = yield SumPhase("confirm", {client: {"survivors": told} for client in survivors})
    routed = server.route_confirmations(_part_all(answers, "codes", server))
    answers = yield SumPhase("reveal", {client: {"codes": _letters(join(own))} for client, own in routed.items()})
    row = server.unmask(_part_all(answers, "shares", server))
    for reason in server.refused.values():
        log.warning("a secure sum continues without a message: %s", reason)
    return Total(tensor_of_words(row), tuple(survivors))


class MaskedHalf:
    """A client's half of one secure sum.

    Args:
        terms: The terms of the sum.
        client: The client.
        keys: Its keys.
    """

    def __init__(self, terms: SumTerms, client: int, keys: SumKeys) -> None:
        self.keys, self.roster = keys, dict[int, bytes]()
        self.survivors: tuple[int, ...] = ()
        self.opening: Opening | None = None
        self.client = SecureClient(terms, client, keys.private, self.roster, os.urandom(32))

    def answer(self, phase: str, got: Mapping[str, Tensor], row: Tensor | None) -> dict[str, Tensor]:
        """What the client answers in a phase."""
        if phase == "advertise":
            return {"keys": _letters(self.client.advertise()), "introduction": _letters(self.keys.introduction)}
        if phase == "share":
            self.roster |= identify_all(self.keys.identify, part_introductions(_bytes(got, "introductions")))
            return {"shares": _letters(join(self.client.share(part(_bytes(got, "keys")))))}
        if phase == ROWS and row is not None:
            return {"row": tensor_of_words(self.client.mask(part(_bytes(got, "shares")), words_of_tensor(row)))}
        if phase == "confirm":
            survivors = got.get("survivors")
            if survivors is None or survivors.dtype != torch.int64 or survivors.dim() != 1:
                raise RefusedMessage("the list of survivors is missing.")
            codes = _letters(join(self.client.confirm(survivors.tolist())))
            self.survivors = tuple(survivors.tolist())
            return {"codes": codes}
        if phase == "reveal":
            shares = _letters(join(self.client.reveal(part(_bytes(got, "codes")))))
            self.opening = Opening(self.survivors)
            return {"shares": shares}
        raise RefusedMessage(f"a secure sum has no phase {phase[:20]!r}.")


def _letters(text: bytes) -> Tensor:
    """Bytes as a tensor."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.zeros(0, dtype=torch.uint8)


def _bytes(tensors: Mapping[str, Tensor], name: str) -> bytes:
    """The bytes of a tensor."""
    tensor = tensors.get(name)
    if tensor is None or tensor.dtype != torch.uint8 or tensor.dim() != 1:
        raise RefusedMessage(f"{name} of a secure sum is missing, or not a row of bytes.")
    return tensor.numpy().tobytes()


def _read_all(answers: Answers, name: str, server: SecureServer) -> dict[int, bytes]:
    """The bytes of a tensor of each answer; whoever sent something else has dropped out."""
    found = {}
    for client, answer in answers.items():
        try:
            found[client] = _bytes(answer, name)
        except RefusedMessage as error:
            server.refused[client] = f"client {client}: {error}"
    return found


def _rows(answers: Answers, server: SecureServer) -> dict[int, Words]:
    """Clients' rows; those of the form that most have come first, since a sum has the form of its first row."""
    rows = {}
    for client, answer in answers.items():
        try:
            rows[client] = words_of_tensor(answer["row"])
        except KeyError:
            server.refused[client] = f"client {client} sent no row."
        except FedloomError as error:
            server.refused[client] = f"client {client}: {error}"
    forms = {client: (str(row.dtype), len(row)) for client, row in rows.items()}
    counts = Counter(forms.values())
    return {client: rows[client] for client in sorted(rows, key=lambda one: (-counts[forms[one]], one))}


def _part_all(answers: Answers, name: str, server: SecureServer) -> dict[int, dict[int, bytes]]:
    """The messages in a tensor of each answer; whoever sent something else has dropped out."""
    found = {}
    for client, text in _read_all(answers, name, server).items():
        try:
            found[client] = part(text)
        except RefusedMessage as error:
            server.refused[client] = f"client {client}: {error}"
    return found


def join_introductions(introductions: Mapping[int, bytes]) -> bytes:
    """Introductions as one text: what clients prove by whose long-term key they have, such as a signed certificate.

    They have different lengths, unlike the other messages of a sum.

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
