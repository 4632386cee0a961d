"""Models that clients hand to each other unread: the envelope that they travel in, and where a client stands.

A method whose clients encrypt for each other (``FedSeq.encrypt``) says in ``handover`` (``HandsOver``) from whom a
client gets its model and to whom it goes. The client half is the same as without encryption. What changes is the form
of a model on its way: bytes under the name ``relay``, with room for what encryption adds. In a simulation the
envelope is open, at a site it is sealed, and it has the same size in both, so that the counted bytes are true.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

RELAY = "relay"
"""The name of a model that one client sends to the next, in messages and replies."""
ROOM = 48
"""What encryption adds to a model, in bytes: a public key and a tag."""


@dataclass(frozen=True)
class Handover:
    """Where a client stands in a chain.

    Args:
        chain: Which of the method's chains, counted from 0.
        place: How many trainings of this chain come before this one in the round.
        previous: The client whose model it gets; None if it gets the server's.
        next: The client that gets its model; None if the server does.
    """

    chain: int
    place: int
    previous: int | None
    next: int | None


def fill_envelopes(rows: Tensor) -> Tensor:
    """Models as bytes, an open envelope per row.

    Args:
        rows: A model per client, of float32.
    """
    numbers = rows.detach().contiguous().view(torch.uint8)
    return torch.cat((numbers, numbers.new_zeros(len(rows), ROOM)), 1)


def read_envelopes(envelopes: Tensor) -> Tensor:
    """The models in open envelopes, a row each.

    Args:
        envelopes: What ``fill_envelopes`` made.
    """
    return envelopes[:, :-ROOM].contiguous().view(torch.float32)
