"""Homomorphic sums: sites encrypt their rows with a key that they share, and the server adds what it cannot read.

CKKS (Cheon et al., https://eprint.iacr.org/2016/421) by TenSEAL, see ``ckks.py``. The server sends the encrypted sum
back, and every site opens it. Numbers are rounded to multiples of 2^-17 before they are encrypted, and the opened sum
is again such a multiple: the noise of the encryption is gone, so the sum is exact, the same in every repetition, and
tells the server nothing about the key (Li and Micciancio, https://eprint.iacr.org/2020/1533, where it does).

It is for a few sites that trust each other and a server that follows the protocol: one that asks sites to open a single
row gets it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from fedloom.secure.sum_step import (
    ROWS,
    ClientHalf,
    Decoded,
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
HEAD = LIMBS + 2
"""Before the values: the weight's parts, one for every client, and whether the row was scaled."""
MOST_SITES = 32
"""The most sites: the sum of a weight's parts must stay below the largest sum."""


@dataclass(frozen=True)
class CKKS(SumStep):
    """Let the server learn nothing of its clients but the sum of their updates, which it adds encrypted."""

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
        largest = values.abs().amax(1, keepdim=True)
        fitting = values / (largest / limit).clamp(min=1.0)
        parts = [(weights >> LIMB * place) & ((1 << LIMB) - 1) for place in range(LIMBS)]
        head = [*parts, torch.ones_like(weights), (largest[:, 0] > limit).long()]
        return torch.cat([torch.stack(head, dim=1).double(), (fitting / STEP).round() * STEP], dim=1)

    def decode_total(self, total: Total, session: SumSession) -> Decoded:
        """The values and the weight; as many rows as clients must be in it."""
        head = total.row[:HEAD].round().long().tolist()
        if head[LIMBS] != len(total.ids):
            raise Abandoned(f"the opened sum has the rows of {head[LIMBS]} clients instead of {len(total.ids)}")
        return Decoded(total.row[HEAD:], sum(part << LIMB * place for place, part in enumerate(head[:LIMBS])), head[-1])

    def hidden_form(self, dtype: torch.dtype, shape: tuple[int, ...]) -> tuple[torch.dtype, tuple[int, ...]]:
        """Encrypted rows are bytes."""
        return torch.uint8, (shape[0], encrypted_bytes(shape[1]))

    def server_half(self, session: SumSession, keys: ServerKeys) -> ServerHalf:
        """Two phases: encrypted rows, and the opened sum."""
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
        total = torch.from_numpy(adder.total())
        answers = yield SumPhase("open", {client: {"total": total} for client in added})
        return Total(_majority_row(answers, len(total), self.least), tuple(sorted(added)))

    def client_half(self, session: SumSession, client: int, keys: SumKeys) -> ClientHalf:
        """A client's half: it encrypts its row and opens the sum."""
        return EncryptedHalf(CkksSite(keys.secret, max(self.least, len(session.ids))))

    def make_shared_secret(self) -> tuple[bytes, bytes] | None:
        """A key for all clients, and what the server needs to add."""
        return make_keys()


class EncryptedHalf:
    """A client's half of one homomorphic sum.

    Args:
        site: The client's key.
    """

    def __init__(self, site: CkksSite) -> None:
        self.site, self.width, self.opening = site, 0, b""

    def answer(self, phase: str, got: Mapping[str, Tensor], row: Tensor | None) -> dict[str, Tensor]:
        """The client's row, encrypted; then the sum, opened once."""
        if phase == ROWS and row is not None:
            self.width = len(row)
            return {"row": torch.from_numpy(self.site.encrypt(row))}
        if phase != "open" or not self.width or "total" not in got:
            raise RefusedMessage("a homomorphic sum is opened once, after the client has sent its row.")
        opened, self.width = self.site.decrypt(got["total"].numpy(), self.width), 0
        exact = (opened / STEP).round() * STEP
        if float(exact[LIMBS]) < CKKS.least:
            raise RefusedMessage(f"this is the sum of {int(exact[LIMBS])} clients, which says too much about one.")
        self.opening = exact.numpy().tobytes()
        return {"row": exact}


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
        if len(row) >= HEAD and encrypted_bytes(len(row)) == encrypted and bool(row.isfinite().all())
    ]
    texts = [row.numpy().tobytes() for row in rows]
    for text, number in Counter(texts).most_common(1):
        if len(rows) >= least and 2 * number > len(rows):
            return rows[texts.index(text)]
    raise Abandoned(f"{len(rows)} clients opened the sum, and at least {least} must, most of them to the same numbers")
