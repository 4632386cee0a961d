"""Tags of encrypted rows: by them sites see whose rows are in a sum, before they open it.

The server adds rows that it cannot read. It could add one twice, leave one out, or take one of another round; it could
do so in one text of a long row only, and make up the rest. So every text begins with numbers that only sites can
compute, from the secret that they share: they belong to one client, one sum and one place. In a sum they add up to what
the announced clients' numbers add up to, which a server reaches by accident with a chance of 2^-60.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.secure.sum_step import Opening, SumSession

TAGS, BITS = 2, 30
"""The numbers of a tag and their bits: 32 of them, as multiples of 2^-17, stay below the largest sum."""
CODE = 32
"""The bytes of a confirmation."""


def tagged_width(width: int, slots: int) -> int:
    """The numbers of a row with its tags, in whole texts.

    Args:
        width: The numbers of the row.
        slots: The numbers of a text.
    """
    return -(-width // (slots - TAGS)) * slots


@dataclass(frozen=True)
class RowTags:
    """The tags of one sum.

    Args:
        key: Comes from the secret of the sites and from what is known of the sum.
    """

    key: bytes

    @staticmethod
    def of(secret: bytes, session: SumSession) -> RowTags:
        """The tags of a sum.

        Args:
            secret: What sites share.
            session: What is known of the sum.
        """
        about = repr((session.run, session.round, session.turn, sorted(session.ids), session.most, session.message))
        return RowTags(hmac.digest(hashlib.sha256(b"fedloom row tags" + secret).digest(), about.encode(), "sha256"))

    def add(self, row: Tensor, slots: int, step: float, client: int) -> Tensor:
        """A row in texts, each behind its tag and the last one filled with zeros.

        Args:
            slots: The numbers of a text.
            step: The number that one stands for in a tag.
            client: Whose row it is.
        """
        texts = tagged_width(len(row), slots) // slots
        filled = torch.zeros(texts * (slots - TAGS), dtype=row.dtype)
        filled[: len(row)] = row
        tags = self._tags([client], texts).to(row.dtype) * step
        return torch.cat([tags, filled.view(texts, -1)], dim=1).flatten()

    def remove(self, total: Tensor, slots: int, clients: Iterable[int]) -> Tensor | None:
        """The numbers of a sum without its tags; None if it is not of each of some clients once.

        Args:
            total: The sum, in steps.
            slots: The numbers of a text.
            clients: Who should be in it.
        """
        texts = total.view(-1, slots)
        if not torch.equal(texts[:, :TAGS].long(), self._tags(clients, len(texts))):
            return None
        return texts[:, TAGS:].flatten()

    def confirmation(self, opening: Opening, client: int) -> bytes:
        """What a client says to the others of a sum: that it has seen it, and opens no other in this turn.

        Args:
            opening: The sum.
            client: Who says so.
        """
        text = repr((client, opening.clients)).encode() + hashlib.sha256(opening.total).digest()
        return hmac.digest(self.key, b"confirmation" + text, "sha256")

    def _tags(self, clients: Iterable[int], texts: int) -> Tensor:
        """The sums of some clients' tags: a row per text."""
        found = torch.zeros(texts, TAGS, dtype=torch.int64)
        for client in clients:
            own = hmac.digest(self.key, f"tags of {client}".encode(), "sha256")
            stream = hashlib.shake_256(own).digest(texts * TAGS * 4)
            words = np.frombuffer(stream, dtype=">u4").astype(np.int64) >> (32 - BITS)
            found += torch.from_numpy(words).view(texts, TAGS)
        return found
