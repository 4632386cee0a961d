"""What a server sees of its clients in an exchange: the model that they got, and how it came back.

What a tensor of a reply is, the method has declared (``core/declarations.py``): weights, or their change, of the whole
model or of some of its columns. Of what is not sent the server takes the initial model, which everybody has. Where
clients send it only a sum, that is one change: the mean of theirs, and nobody can say whose part is whose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.declarations import Declaration, Declared, Model, Update, default_declaration, start_of_model
from fedloom.core.layout import Layout
from fedloom.core.message import Replies, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task


@dataclass(frozen=True)
class Seen:
    """What a server sees of one client, or of a sum.

    Args:
        clients: Whose update it is.
        row: The model that they got.
        change: How it came back: the difference of the two, in double precision; 0 in columns that are not sent.
        samples: How many training samples they have.
        context: What the server has in this round.
        steps: How many gradient steps they made, together.
        columns: Which columns are sent; None for all of them.
    """

    clients: tuple[int, ...]
    row: Tensor
    change: Tensor
    samples: int
    context: ServerContext
    steps: int = 0
    columns: Tensor | None = None

    @property
    def of_sum(self) -> bool:
        """Whether it is the change of several clients together."""
        return len(self.clients) > 1

    @property
    def task(self) -> Task:
        """The task, of whose samples an attacker may use those for testing, but not what it is after."""
        return self.context.task.of_client(self.clients[0])

    @property
    def layout(self) -> Layout:
        """Where the tensors of its model lie."""
        return self.task.layout

    @property
    def trained(self) -> Tensor:
        """The change in the columns that train."""
        return self.layout.take_trained(self.change)

    @property
    def returned(self) -> Tensor:
        """The model that came back."""
        return (self.row.double() + self.change).float()

    def take_sent(self, rows: Tensor) -> Tensor:
        """Of the columns that train, those that are sent.

        Args:
            rows: Gradients, or changes, in the columns that train.
        """
        return rows if self.columns is None else rows[..., self.layout.take_trained(self.columns)]


def seen_updates(wave: Wave, replies: Replies) -> list[Seen]:
    """What a server sees: the change of each client, or one for a sum of all; nothing where no model is exchanged.

    Args:
        wave: What was sent.
        replies: What came back.
    """
    context, found = replies.context, list[Seen]()
    if not wave.ids:
        return found
    task = context.task.of_client(wave.ids[0])  # clients of a wave with such tensors have one model
    for name, start, changes in _changes(wave, replies):
        columns = _columns(_kind(context, name, wave), task)
        rows = start if columns is None else _in_place(task.initial_row(), columns, start)
        wide = changes if columns is None else _in_place(torch.zeros(task.layout.width).double(), columns, changes)
        if rows.shape[-1] != task.layout.width or wide.shape[-1] != task.layout.width:
            continue  # nobody says what it is a change of
        if len(changes) < len(wave.ids):
            samples = int(context.samples[torch.tensor(wave.ids)].sum())
            found.append(Seen(tuple(wave.ids), rows, wide[0], samples, context, int(replies.steps.sum()), columns))
            continue
        for place, client in enumerate(wave.ids):
            row, counted, steps = rows if rows.dim() == 1 else rows[place], replies.samples[place], replies.steps[place]
            found.append(Seen((client,), row, wide[place], int(counted), context, int(steps), columns))
    return found


def columns_on_the_way(declared: Declared, task: Task) -> Tensor:
    """The columns of a task's row whose weights are in what a method sends, in one of the two directions.

    Args:
        declared: What is sent.
    """
    every = torch.ones(task.layout.width, dtype=torch.bool)
    found = torch.zeros_like(every)
    for kind in declared.values():
        if isinstance(kind, Model | Update):
            found |= every if kind.columns is None else kind.columns(task)
    return found


def received_models(sends: Declared, receives: Declared) -> list[str]:
    """The names of the received tensors that clients train: those that replies start from.

    Args:
        sends: What the method's replies are.
        receives: What its messages are.
    """
    models = [name for name, kind in receives.items() if isinstance(kind, Model)]
    starts = set[str]()
    for name, kind in sends.items():
        if isinstance(kind, Model) and callable(kind.of):
            return models  # clients choose among them
        if isinstance(kind, Model):
            starts.add(str(kind.of or name))
        elif isinstance(kind, Update):
            starts.add(kind.like)
    return [name for name in models if name in starts]


def _changes(wave: Wave, replies: Replies) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Each tensor of a reply that is weights or their change: its name, what clients started from, and the change."""
    message, summed = wave.message, len(next(iter(replies.tensors.values()), ())) < len(wave.ids)
    for name, tensor in replies.tensors.items():
        kind = _kind(replies.context, name, wave)
        if isinstance(kind, Update):
            start = message.get(kind.like)
        else:
            start = start_of_model(kind, name, message, replies.tensors)
        if start is None or tensor.dim() != 2 or (summed and start.dim() > 1):
            continue  # no weights, or a sum of changes of different models, which has no start
        start = start.float()
        yield name, start, tensor.double() if isinstance(kind, Update) else tensor.double() - start.double()


def _kind(context: ServerContext, name: str, wave: Wave) -> Declaration:
    return context.sends[name] if name in context.sends else default_declaration(name, name in wave.message)


def _columns(kind: Declaration, task: Task) -> Tensor | None:
    if not isinstance(kind, Model | Update) or kind.columns is None:
        return None
    return kind.columns(task)


def _in_place(whole: Tensor, columns: Tensor, part: Tensor) -> Tensor:
    """A part in its columns of a whole row, or of as many rows as the part has; a strange width stays as it is."""
    if part.shape[-1] != int(columns.sum()):
        return part
    rows = whole.expand(*part.shape[:-1], -1).clone()
    rows[..., columns] = part
    return rows
