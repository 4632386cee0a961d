"""Clients' graphs as Fed-GALA sees them: what it may ask of a federation whose clients hold a graph each.

Clients may hold the same node. A sample of such a federation is a copy of a node at a client; the copies of one
client form a block, and the whole graph, which only the evaluating node sees, is the last block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor


class ClientGraph(Protocol):
    """One graph. Its nodes have local numbers from 0."""

    def __len__(self) -> int: ...

    @property
    def edges(self) -> Tensor:
        """2×m local numbers; each edge appears once."""

    @property
    def keys(self) -> Tensor:
        """A number per edge, ``smaller end * nodes + larger end``, sorted, for looking up pairs."""


class ClientGraphs(Protocol):
    """The graphs of a federation."""

    @property
    def clients(self) -> int:
        """How many clients hold a graph."""

    @property
    def offsets(self) -> Tensor:
        """The first node copy of each block."""

    @property
    def anchors(self) -> Sequence[Tensor]:
        """For each client, the local numbers of nodes that other clients hold too, in the order of their ids."""

    @property
    def anchor_ids(self) -> Sequence[Tensor]:
        """For each client, the ids of the same nodes, which are the same at all clients."""

    @property
    def id_hashes(self) -> Sequence[Tensor] | None:
        """For each client, salted hashes of the ids of its nodes, after one that only depends on the salt.

        It is for clients that do not know each other's nodes: anchors are found by comparing hashes. None where anchors
        are known, as in a simulation.
        """

    @property
    def most_anchors(self) -> int:
        """How many anchors the client with the most of them has."""

    def graph(self, block: int) -> ClientGraph:
        """A block's graph, with the edges that its client added."""

    def positions(self, block: int) -> Tensor:
        """All node copies of a block, in the order of its nodes."""

    def block_of(self, x: Tensor) -> int:
        """The block of some node copies; -1 where they lie in several blocks."""

    def augment(self, client: int, edges: Tensor) -> None:
        """Set the edges (2×m local numbers) that a client adds to its graph, in place of earlier ones."""


@runtime_checkable
class HoldsGraphs(Protocol):
    """A federation whose clients hold graphs."""

    @property
    def graphs(self) -> ClientGraphs: ...
