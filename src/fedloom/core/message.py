"""Messages between server and clients: named tensors, whose bytes are counted. Nothing else is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedloom.core.aggregator import AggregationContext, Aggregator, AggregatorMemory
from fedloom.core.errors import FedloomError
from fedloom.core.server_context import ServerContext


@dataclass(frozen=True)
class Message:
    """What the server sends down.

    Args:
        shared: Tensors that every client gets.
        each: Tensors with one entry per client.
    """

    shared: Mapping[str, Tensor] = field(default_factory=dict)
    each: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.each[name] if name in self.each else self.shared[name]

    def __contains__(self, name: object) -> bool:
        return name in self.each or name in self.shared

    def get(self, name: str) -> Tensor | None:
        """The tensor of a name, or None."""
        return self.each.get(name, self.shared.get(name))

    def for_clients(self, places: Tensor) -> Message:
        """The message as the clients at some places of the round see it.

        Args:
            places: Their places among the clients that the message goes to.
        """
        return Message(self.shared, {name: tensor[places] for name, tensor in self.each.items()})

    def bytes_for(self, clients: int) -> int:
        """Bytes sent down to ``clients`` clients.

        Args:
            clients: How many clients get the message.
        """
        return clients * sum(t.nbytes for t in self.shared.values()) + sum(t.nbytes for t in self.each.values())


@dataclass(frozen=True)
class Reply:
    """What the clients of a cohort send up.

    Args:
        tensors: Named tensors with one entry per client.
        bytes: What they cost to send, per client, where that is not the size of the tensors.
    """

    tensors: Mapping[str, Tensor]
    bytes: Tensor | None = None

    def cost(self, clients: int) -> Tensor:
        """Bytes sent up by each of the cohort's clients.

        Args:
            clients: How many clients replied.
        """
        if self.bytes is not None:
            return self.bytes
        return torch.full((clients,), sum(t.nbytes for t in self.tensors.values()) // clients)


Shapes = Mapping[str, tuple[int, ...]]
"""The shapes of one client's tensors, by name."""


@dataclass(frozen=True)
class Wave:
    """One exchange of a round: a message to some clients, who all answer. Most rounds are one wave.

    Args:
        ids: The clients.
        message: What they get.
        turn: How often these clients were already asked in this round.
        from_server: Per client, whether the message comes from the server. Where clients hand models to each other it
            does not, and its bytes are counted as sent between clients.
        to_server: Per client, whether the answer goes to the server.
        optional: Whether the method continues without an answer.
        forms: In which form the message goes down to which clients, where that is not as it is; a downlink fills it in.
        shapes: Finds the shape of each tensor of a client's reply, where no tensor of the message has it. Who gets only
            the sum of replies cannot tell their tensors apart without.
    """

    ids: list[int]
    message: Message
    turn: int = 0
    from_server: Tensor | None = None
    to_server: Tensor | None = None
    optional: bool = False
    forms: Sequence[tuple[list[int], Message]] = ()
    shapes: Callable[[], Shapes] | None = None

    def only(self, places: list[int]) -> Wave:
        """The same wave to the clients at some places of it.

        Args:
            places: The places of the clients in ``ids``.
        """
        if len(places) == len(self.ids):
            return self
        index = torch.tensor(places, dtype=torch.int64)
        return replace(
            self,
            ids=[self.ids[place] for place in places],
            message=self.message.for_clients(index),
            from_server=None if self.from_server is None else self.from_server[index],
            to_server=None if self.to_server is None else self.to_server[index],
            forms=(),
        )


@dataclass(frozen=True)
class Replies:
    """The replies of a wave, in the order of its ids: of all its clients, or of those whose answer was accepted.

    Args:
        ids: The clients that replied.
        tensors: What they sent, with one entry per client.
        samples: Their numbers of training samples.
        steps: How many gradient steps each of them took.
        weights: What the run's weighting gives each of these clients; they sum to one.
        shares: What it would give them among all clients who may take part (SCAFFOLD and FedDyn divide by all of them).
        aggregator: How many rows become one.
        clients: How many clients may take part in all.
        context: What the server may use in this round.
        origins: What the clients started from, by the names of replies that are weights: one row, or one per client.
        memory: What the aggregator remembers.
        expected: How many clients a round has on average; None where that is not known.
        findings: What the record of the round says of the aggregation.
    """

    ids: list[int]
    tensors: Mapping[str, Tensor]
    samples: Tensor
    steps: Tensor
    weights: Tensor
    shares: Tensor
    aggregator: Aggregator
    clients: int
    context: ServerContext
    origins: Mapping[str, Tensor] = field(default_factory=dict)
    memory: AggregatorMemory = field(default_factory=AggregatorMemory)
    expected: float | None = None
    findings: MutableMapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def mean(self, name: str, group: int | None = None) -> Tensor:
        """The rows of all clients as one, by the run's aggregator and weights; a row may have any shape.

        Args:
            name: The name of the reply's tensor.
            group: The number of the group of clients, in methods that have a model for each: an aggregator remembers
                each group apart.
        """
        memory = self.memory.of(name if group is None else f"{name}.{group}")
        context = AggregationContext.of(
            self.context,
            ids=self.ids,
            origin=self.origins.get(name),
            reply=name,
            expected=self.expected,
            memory=memory,
            findings=self.findings,
        )
        return self._aggregate(self.tensors[name], self.weights, context)

    def combine(self, rows: Tensor, weights: Tensor, origin: Tensor | None = None) -> Tensor:
        """Any rows as one, by the run's aggregator, which remembers nothing of them; a row may have any shape.

        Args:
            rows: A row per client.
            weights: The weights of the rows; they sum to one.
            origin: What the rows started from, where they are weights.
        """
        return self._aggregate(
            rows, weights, AggregationContext.of(self.context, origin=origin, findings=self.findings)
        )

    def _aggregate(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        flat = rows.flatten(1) if rows.dim() > 2 else rows
        context.note_tolerated(self.aggregator, len(flat))
        row = self.aggregator(flat, weights, context)
        if not isinstance(row, Tensor) or row.shape != flat.shape[1:]:
            made = tuple(row.shape) if isinstance(row, Tensor) else repr(row)
            raise FedloomError(
                f"aggregator {self.aggregator.name} makes {made} of rows of shape {tuple(flat.shape)}: return one row."
            )
        return row.view(rows.shape[1:])

    def only(self, mask: Tensor) -> Replies:
        """The replies of some clients, whose weights again sum to one.

        Args:
            mask: A mask of the clients.
        """
        if mask.all():
            return self
        places = mask.nonzero().flatten()
        weights = self.weights[places]
        return replace(
            self,
            ids=[self.ids[place] for place in places.tolist()],
            tensors={name: tensor[places] for name, tensor in self.tensors.items()},
            samples=self.samples[places],
            steps=self.steps[places],
            weights=weights / weights.sum(),
            shares=self.shares[places],
            origins={name: row if row.dim() == 1 else row[places] for name, row in self.origins.items()},
        )


def message_digest(tensors: Mapping[str, Tensor]) -> bytes:
    """The digest of tensors by name: two messages with the same digest start clients from the same bytes.

    Args:
        tensors: The tensors of the message that they share.
    """
    hashed = hashlib.blake2b(digest_size=32)
    for name, tensor in sorted(tensors.items()):
        content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data
        # Each part has its length: names come from a server, which could write one message's bytes into another's name.
        for part in (name.encode(), f"{tensor.dtype} {tuple(tensor.shape)}".encode(), content):
            hashed.update(len(part).to_bytes(8, "big"))
            hashed.update(part)
    return hashed.digest()
