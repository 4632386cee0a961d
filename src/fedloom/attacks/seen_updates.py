"""What a server sees of its clients in an exchange: the model that they got, and how it came back.

Where clients send it only a sum, that is one change: the mean of theirs, and nobody can say whose part is whose.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.message import Replies, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task


@dataclass(frozen=True)
class Seen:
    """What a server sees of one client, or of a sum.

    Args:
        clients: Whose update it is.
        row: The model that they got.
        change: How it came back: the difference of the two, in double precision.
        samples: How many training samples they have.
        context: What the server has in this round.
    """

    clients: tuple[int, ...]
    row: Tensor
    change: Tensor
    samples: int
    context: ServerContext

    @property
    def of_sum(self) -> bool:
        """Whether it is the change of several clients together."""
        return len(self.clients) > 1

    @property
    def task(self) -> Task:
        """The task, of whose samples an attacker may use those for testing, but not what it is after."""
        return self.context.task

    @property
    def trained(self) -> Tensor:
        """The change in the columns that train."""
        return self.context.layout.take_trained(self.change)


def seen_updates(wave: Wave, replies: Replies) -> list[Seen]:
    """What a server sees: the change of each client, or one for a sum of all; nothing where no model is exchanged.

    Args:
        wave: What was sent.
        replies: What came back.
    """
    if "row" not in wave.message or "row" not in replies.tensors:
        return []
    if "row" in wave.message.each and wave.from_server is not None:
        return []  # clients hand models to each other, and the server does not see what they got
    sent, context = wave.message["row"].float(), replies.context
    changes = replies["row"].double() - sent.double()
    if len(changes) < len(wave.ids):
        samples = int(context.samples[torch.tensor(wave.ids)].sum())
        return [Seen(tuple(wave.ids), sent, changes[0], samples, context)]
    found = zip(wave.ids, sent.expand(len(changes), -1), changes, replies.samples.tolist(), strict=True)
    return [Seen((client,), row, change, int(samples), context) for client, row, change, samples in found]
