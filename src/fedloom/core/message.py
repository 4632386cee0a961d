"""What travels: named tensors down, named tensors up. Their bytes are counted, and nothing else is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Message:
    """Down: tensors that every client gets (``shared``) and tensors with one entry per client (``each``)."""

    shared: Mapping[str, Tensor] = field(default_factory=dict)
    each: Mapping[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.each[name] if name in self.each else self.shared[name]

    def __contains__(self, name: object) -> bool:
        return name in self.each or name in self.shared

    def for_clients(self, places: Tensor) -> Message:
        """The message as the clients at some places of the round see it."""
        return Message(self.shared, {name: tensor[places] for name, tensor in self.each.items()})

    def bytes_for(self, clients: int) -> int:
        """Bytes sent down to ``clients`` clients."""
        return clients * sum(t.nbytes for t in self.shared.values()) + sum(t.nbytes for t in self.each.values())


@dataclass(frozen=True)
class Reply:
    """Up: tensors with one entry per client of a cohort. ``bytes`` overrides what they cost to send, per client."""

    tensors: Mapping[str, Tensor]
    bytes: Tensor | None = None

    def cost(self, clients: int) -> Tensor:
        """Bytes sent up by each of the cohort's clients."""
        if self.bytes is not None:
            return self.bytes
        return torch.full((clients,), sum(t.nbytes for t in self.tensors.values()) // clients)


Aggregator = Callable[[Tensor, Tensor], Tensor]
"""How many rows become one: ``aggregator(rows, weights)`` with weights that sum to one."""


@dataclass(frozen=True)
class Replies:
    """All replies of a round, in client order."""

    ids: list[int]
    tensors: Mapping[str, Tensor]
    samples: Tensor
    steps: Tensor
    weights: Tensor
    aggregator: Aggregator
    clients: int
    """How many clients the federation has in all (SCAFFOLD and FedDyn divide by it)."""

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def mean(self, name: str) -> Tensor:
        """The rows of all clients as one, by the run's aggregator and weights."""
        return self.aggregator(self.tensors[name], self.weights)
