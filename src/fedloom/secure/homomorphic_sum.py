"""Homomorphic sums: sites encrypt their rows with a key that they share, and the server adds what it cannot read.

CKKS (Cheon et al., https://eprint.iacr.org/2016/421) by TenSEAL, see ``ckks.py``. The server sends the encrypted sum
back, and every site opens it. Numbers are rounded to multiples of 2^-17 before they are encrypted, and the opened sum
is again such a multiple: the noise of the encryption is gone, so the sum is exact, the same in every repetition, and
tells the server nothing about the key (Li and Micciancio, https://eprint.iacr.org/2020/1533, where it does).

The server can add whatever rows it likes, so sites look before they open. Every text of a row has tags of its client,
this sum, the text's place and its numbers (``row_tags.py``): their sum is that of the announced clients only if each of
them is in it once, with its row of this sum, as it was encrypted. Numbers that are not close to multiples of 2^-17 are
not sums of rows, but multiples. And a site opens what more than half of the announced clients have confirmed to each
other, each of them one sum of a round: of several such sums no client is left over (each but one would have to be in
two of them, which takes more confirmations than there are clients).

It is for a few sites that trust each other: whoever has their key opens every row.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import Abandoned, FedloomError
from fedloom.core.task import Task
from fedloom.secure.ckks import (
    LARGEST_SUM,
    SLOTS,
    TEXT_BYTES,
    CkksAdder,
    CkksSite,
    Encrypted,
    encrypted_bytes,
    load_library,
    make_keys,
)
from fedloom.secure.row_tags import CODE, RowTags, tagged_width
from fedloom.secure.sum_step import (
    ROWS,
    ClientHalf,
    Decoded,
    Opening,
    RefusedMessage,
    ServerHalf,
    ServerKeys,
    SumKeys,
    SumPhase,
    SumSession,
    SumStep,
    Total,
)

log = logging.getLogger("fedloom")

Answers = Mapping[int, Mapping[str, Tensor]]

STEP = 2.0**-17
"""The distance of two numbers; far above the noise of the encryption."""
LIMB, LIMBS = 12, 5
"""A weight has this many parts of this many bits, so that their sums stay small."""
HEAD = LIMBS + 1
"""Before the values: the weight's parts, and whether the row was scaled."""
MOST_SITES = 32
"""The most sites: the sum of a weight's parts must stay below the largest sum. A row has a place for each of them
before everything else, with a one at its own client's."""
CLOSE = 1 / 8
"""How far an opened number may be from a multiple of ``STEP``, in steps; the noise of 32 rows is at most 1/64."""


@dataclass(frozen=True)
class CKKS(SumStep):
    """Let the server learn nothing of its clients but the sum of their updates, which it adds encrypted."""

    decrypting_phase: ClassVar[str] = "confirm"

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse also where the library is missing."""
        super().check(algorithm, task, before)
        load_library()

    def check_session(self, session: SumSession) -> None:
        """Refuse also too many clients."""
        super().check_session(session)
        if len(session.ids) > MOST_SITES:
            raise FedloomError(
                f"ckks adds the rows of at most {MOST_SITES} clients, a round has {len(session.ids)}: use securesum."
            )

    def code(self, values: Tensor, weights: Tensor, session: SumSession, random: Sequence[torch.Generator]) -> Tensor:
        """A row of multiples of 2^-17 per client, behind its weight."""
        limit = LARGEST_SUM / len(session.ids)
        largest = torch.cat([values, values.new_zeros(len(values), 1)], dim=1).abs().amax(1, keepdim=True)
        fitting = values / (largest / limit).clamp(min=1.0)
        parts = [(weights >> LIMB * place) & ((1 << LIMB) - 1) for place in range(LIMBS)]
        head = [*parts, (largest[:, 0] > limit).long()]
        return torch.cat([torch.stack(head, dim=1).double(), (fitting / STEP).round() * STEP], dim=1)

    def decode_total(self, total: Total, session: SumSession) -> Decoded:
        """The values and the weight."""
        head = total.row[:HEAD].round().long().tolist()
        return Decoded(total.row[HEAD:], sum(part << LIMB * place for place, part in enumerate(head[:LIMBS])), head[-1])

    def hidden_form(self, dtype: torch.dtype, shape: tuple[int, ...]) -> tuple[torch.dtype, tuple[int, ...]]:
        """Encrypted rows are bytes."""
        return torch.uint8, (shape[0], encrypted_bytes(tagged_width(MOST_SITES + shape[1], SLOTS)))

    def server_half(self, session: SumSession, keys: ServerKeys) -> ServerHalf:
        """Three phases: encrypted rows, who is in the sum, and the opened sum."""
        answers = yield SumPhase(ROWS, {client: {} for client in session.ids})
        adder: CkksAdder | None = None
        added: list[int] = []
        for client, row in _encrypted_rows(answers).items():
            adder = adder or CkksAdder(keys.public, len(row) // TEXT_BYTES * SLOTS)
            try:
                adder.add(row)
            except RefusedMessage as error:  # it has dropped out
                log.warning("client %s: %s", client, error)
                continue
            added.append(client)
        if adder is None or len(added) < self.least:
            raise Abandoned(f"{len(added)} clients sent their rows, and a homomorphic sum needs {self.least}")
        added.sort()
        told = {"total": torch.from_numpy(adder.total()), "clients": torch.tensor(added)}
        answers = yield SumPhase("confirm", dict.fromkeys(added, told))
        codes = {client: answer["code"] for client, answer in answers.items() if _is_code(answer.get("code"))}
        if not codes:
            raise Abandoned("no client has confirmed a homomorphic sum")
        who = sorted(codes)
        confirmed = {"confirmed": torch.tensor(who), "codes": torch.cat([codes[client] for client in who])}
        answers = yield SumPhase("open", dict.fromkeys(who, confirmed))
        opened = _majority_row(answers, len(told["total"]), self.least)
        members = _members(opened, session)
        if members != tuple(added):
            raise Abandoned(f"the opened sum is not of each of its {len(added)} clients once")
        return Total(opened[MOST_SITES:], members)

    def client_half(self, session: SumSession, client: int, keys: SumKeys) -> ClientHalf:
        """A client's half: it encrypts its row and opens the sum."""
        return EncryptedHalf(CkksSite(keys.secret, max(self.least, len(session.ids))), session, client, keys.secret)

    def make_shared_secret(self) -> tuple[bytes, bytes] | None:
        """A key for all clients, and what the server needs to add."""
        return make_keys()


class EncryptedHalf:
    """A client's half of one homomorphic sum.

    Args:
        site: The client's key.
        session: What is known of the sum.
        secret: What all clients share, and the server does not have.
    """

    def __init__(self, site: CkksSite, session: SumSession, client: int, secret: bytes) -> None:
        self.site, self.session, self.client = site, session, client
        self.tags, self.width = RowTags.of(secret, session), 0
        self.opening: Opening | None = None
        self.opened: Tensor | None = None

    def answer(self, phase: str, got: Mapping[str, Tensor], row: Tensor | None) -> dict[str, Tensor]:
        """The client's row, encrypted; that it agrees with the sum; then the sum, opened once."""
        if phase == ROWS and row is not None:
            places = torch.zeros(MOST_SITES, dtype=row.dtype)
            places[sorted(self.session.ids).index(self.client)] = 1
            self.width = MOST_SITES + len(row)
            tagged = self.tags.add(torch.cat([places, row]), SLOTS, STEP, self.client)
            return {"row": torch.from_numpy(self.site.encrypt(tagged))}
        if phase == "confirm" and self.width:
            width, self.width = self.width, 0
            clients, opened = self._open(got, width)
            self.opening, self.opened = Opening(clients, opened.numpy().tobytes()), opened
            return {"code": _code(self.tags.confirmation(self.opening, self.client))}
        if phase == "open" and self.opening is not None and self.opened is not None:
            opened, self.opened = self.opened, None
            self._check_confirmed(got, self.opening)
            return {"row": opened}
        raise RefusedMessage("a homomorphic sum is opened once, after the client has sent its row and confirmed it.")

    def _open(self, got: Mapping[str, Tensor], width: int) -> tuple[tuple[int, ...], Tensor]:
        """The clients of a sum, and the sum; it is refused unless each of them is in it once."""
        named = _numbers(got, "clients")
        if named != tuple(sorted(set(named))) or self.client not in named or not {*named} <= {*self.session.ids}:
            raise RefusedMessage("the clients of a homomorphic sum are not an ascending list of those that were asked.")
        if len(named) < CKKS.least:
            raise RefusedMessage(f"this is the sum of {len(named)} clients, which says too much about one.")
        if "total" not in got:
            raise RefusedMessage("a homomorphic sum is missing.")
        values = self._values(got["total"], width, named)
        if values is None:  # one sentence for all that may be wrong: which it is would tell a server about a row
            raise RefusedMessage(f"this is not the sum of each of the {len(named)} announced clients once.")
        return named, values[:width] * STEP + 0.0

    def _values(self, total: Tensor, width: int, named: tuple[int, ...]) -> Tensor | None:
        """The numbers of an encrypted sum, in steps; None if it is not of each of these clients once."""
        try:
            found = self.site.decrypt(total.numpy(), tagged_width(width, SLOTS)) / STEP
        except RefusedMessage:
            return None
        steps = found.round()
        values = self.tags.remove(steps, SLOTS, named)
        close = not bool(((found - steps).abs() > CLOSE).any())
        is_sum = values is not None and _members(values[:MOST_SITES] * STEP, self.session) == named
        return values if close and is_sum else None

    def _check_confirmed(self, got: Mapping[str, Tensor], opening: Opening) -> None:
        """Refuse to open what not more than half of the clients in it have confirmed."""
        confirmed, codes = _numbers(got, "confirmed"), got.get("codes")
        if not _is_code(codes, len(confirmed)):
            raise RefusedMessage("the confirmations of a homomorphic sum are missing.")
        known = {*opening.clients} & {
            client
            for place, client in enumerate(confirmed)
            if torch.equal(codes[CODE * place :][:CODE], _code(self.tags.confirmation(opening, client)))
        }
        if 2 * len(known) <= len(opening.clients):
            raise RefusedMessage(
                f"{len(known)} of {len(opening.clients)} clients have confirmed a homomorphic sum, and more than half "
                "must."
            )


def _members(opened: Tensor, session: SumSession) -> tuple[int, ...] | None:
    """The clients of a sum by the ones at their places; None if one is in it more or less than once."""
    places = opened[:MOST_SITES].tolist()
    ids = sorted(session.ids)
    if any(one not in (0, 1) for one in places) or any(places[len(ids) :]):
        return None
    return tuple(client for client, one in zip(ids, places, strict=False) if one)


def _numbers(got: Mapping[str, Tensor], name: str) -> tuple[int, ...]:
    """Whole numbers that the server sent."""
    tensor = got.get(name)
    if tensor is None or tensor.dtype != torch.int64 or tensor.dim() != 1:
        raise RefusedMessage(f"{name} of a homomorphic sum are missing.")
    return tuple(tensor.tolist())


def _code(text: bytes) -> Tensor:
    return torch.tensor(list(text), dtype=torch.uint8)


def _is_code(tensor: Tensor | None, number: int = 1) -> TypeGuard[Tensor]:
    """Whether a tensor is some codes, one behind the other."""
    return tensor is not None and tensor.dtype == torch.uint8 and tensor.shape == (CODE * number,)


def _rows(answers: Answers, dtype: torch.dtype) -> dict[int, Tensor]:
    """The rows of those who sent one of a type, by client; whoever did not has dropped out."""
    rows = {client: answer["row"] for client, answer in sorted(answers.items()) if "row" in answer}
    return {client: row for client, row in rows.items() if row.dtype == dtype and row.dim() == 1}


def _encrypted_rows(answers: Answers) -> dict[int, Encrypted]:
    """Clients' rows; those of the length that most have come first, since a sum has the form of its first row."""
    rows = _rows(answers, torch.uint8)
    lengths = Counter(len(row) for row in rows.values())
    return {client: rows[client].numpy() for client in sorted(rows, key=lambda one: (-lengths[len(rows[one])], one))}


def _majority_row(answers: Answers, encrypted: int, least: int) -> Tensor:
    """The sum as most clients opened it: they all have the same key, so whoever differs is wrong.

    Args:
        answers: What clients answered; what cannot be the sum counts as no answer.
        encrypted: The bytes of the encrypted sum.
        least: The fewest answers.
    """
    rows = [
        row + 0.0  # no zero has a sign
        for row in _rows(answers, torch.float64).values()
        if len(row) >= MOST_SITES + HEAD
        and encrypted_bytes(tagged_width(len(row), SLOTS)) == encrypted
        and bool(row.isfinite().all())
    ]
    texts = [row.numpy().tobytes() for row in rows]
    for text, number in Counter(texts).most_common(1):
        if len(rows) >= least and 2 * number > len(rows):
            return rows[texts.index(text)]
    raise Abandoned(f"{len(rows)} clients opened the sum, and at least {least} must, most of them to the same numbers")
