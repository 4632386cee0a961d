"""Tags of encrypted rows: by them sites see whose rows are in a sum, before they open it.

The server adds rows that it cannot read. It could add one twice, leave one out, or take one of another round; it could
do so in one text of a long row only, and make up the rest; and it can multiply the numbers of a text, each by another
whole number, by a polynomial that leaves some of them as they are. So every text begins with tags that only sites can
compute, from the secret that they share: a number that belongs to one client, one sum and one place, plus the text's
other numbers, each times a secret factor, modulo a prime. The factors are the same for all clients of a sum, so tags
add up to the tag of the sum (a linear code of Wegman and Carter's kind, as in Agrawal and Boneh, Homomorphic MACs,
ACNS 2009). A server that changes the numbers of a sum or the clients in it reaches their tags with a chance of 2^-60.
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
PRIME = 2**BITS - 35
"""The largest prime of so many bits."""
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
        numbers = filled.view(texts, -1)
        tags = self._tags([client], (numbers / step).round().long())
        return torch.cat([tags.to(row.dtype) * step, numbers], dim=1).flatten()

    def remove(self, total: Tensor, slots: int, clients: Iterable[int]) -> Tensor | None:
        """The numbers of a sum without its tags; None if it is not of each of some clients once.

        Args:
            total: The sum, in steps.
            slots: The numbers of a text.
            clients: Who should be in it.
        """
        texts = total.view(-1, slots)
        tags, numbers = texts[:, :TAGS].long(), texts[:, TAGS:].long()
        if not torch.equal(tags.remainder(PRIME), self._tags(clients, numbers)):
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

    def _tags(self, clients: Iterable[int], numbers: Tensor) -> Tensor:
        """The tags of some clients' sum, modulo the prime: a row per text.

        Args:
            numbers: What the sum has behind its tags, in steps: a row per text.
        """
        texts, others = numbers.shape
        factors = self._secret_numbers("factors", texts, TAGS * others).view(texts, TAGS, others)
        found = (factors * numbers.remainder(PRIME)[:, None]).remainder(PRIME).sum(2)
        for client in clients:
            found += self._secret_numbers(f"tags of {client}", texts, TAGS)
        return found.remainder(PRIME)

    def _secret_numbers(self, purpose: str, texts: int, count: int) -> Tensor:
        """Numbers below the prime that a server cannot tell from random ones: some for each text."""
        own = hmac.digest(self.key, purpose.encode(), "sha256")
        stream = hashlib.shake_256(own).digest(texts * count * 8)
        words = np.frombuffer(stream, dtype=">u8") % PRIME  # of 64 bits, so that all are as likely but for 2^-34
        return torch.from_numpy(words.astype(np.int64)).view(texts, count)
