"""Clients with different models: several architectures over one task, and which client has which.

A cohort is made of clients of one architecture: its task has their model, and the rows it trains and keeps are as wide
as that model. Methods that exchange logits, features or prototypes need to know nothing of this. The state that clients
keep has a name of its own for each architecture but the first (``row~1``), since rows of one name are equally wide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from fedloom.core.kept_rows import KeptRows

BETWEEN = "~"
"""Between the name of kept state and the number of its architecture."""


@dataclass(frozen=True, eq=False)
class Architectures:
    """The models of a task's clients.

    Args:
        models: A model of each architecture; its weights are where the clients of that architecture start.
        names: The names of the architectures.
        of_client: The number of each client's architecture.
    """

    models: tuple[nn.Module, ...]
    names: tuple[str, ...]
    of_client: Tensor

    def __len__(self) -> int:
        return len(self.models)

    def of(self, client: int) -> int:
        """The number of a client's architecture; the first for a client that only evaluates."""
        return int(self.of_client[client]) if client < len(self.of_client) else 0

    def split(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """Some clients by their architecture, each in the given order; architectures that none has are left out.

        Args:
            ids: The clients.
        """
        ordered = sorted(ids, key=self.of)  # a stable sort
        return {number: list(some) for number, some in groupby(ordered, key=self.of)}

    def clients_of(self, number: int) -> list[int]:
        """All clients of an architecture.

        Args:
            number: The number of the architecture.
        """
        return (self.of_client == number).nonzero().flatten().tolist()

    def one_client_each(self) -> Architectures:
        """The same architectures with one client each, in order: for training on everybody's data."""
        return Architectures(self.models, self.names, torch.arange(len(self)))


def stored_name(name: str, architecture: int) -> str:
    """The name under which clients of an architecture keep something.

    Args:
        name: What the method calls it.
    """
    return f"{name}{BETWEEN}{architecture}" if architecture else name


def own_state(kept: Mapping[str, KeptRows], architecture: int, count: int) -> dict[str, KeptRows]:
    """What clients of one architecture kept, under the names that the method gave.

    Args:
        kept: What clients of all architectures kept.
        count: How many architectures there are.
    """
    if count < 2:
        return dict(kept)
    ends = tuple(f"{BETWEEN}{number}" for number in range(1, count))
    if not architecture:
        return {name: rows for name, rows in kept.items() if not name.endswith(ends)}
    end = ends[architecture - 1]
    return {name.removesuffix(end): rows for name, rows in kept.items() if name.endswith(end)}
