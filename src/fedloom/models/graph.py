"""Graphs that clients hold, and the whole graph they come from.

A client's graph is a piece of one undirected graph; nodes on the border of two pieces are held by both clients and
keep their identity: they are anchors. All graphs of a federation are blocks of one numbering of node copies, so that
a sample of the federation is a copy's number and a batch says by itself in which graph its nodes lie.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.models.sparse import Sparse

REMEMBERED = 16
"""Receptive fields that a graph caches: those of its training, validation and test nodes, and of some batches."""


def _nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """What two convolutions see of some nodes: Â from them to their neighbours (``outer``), Â from these to the nodes
    two steps away (``inner``), and the features of the latter."""

    outer: Sparse
    inner: Sparse
    features: Sparse


@dataclass(frozen=True, eq=False)
class Graph:
    """One graph: ``nodes`` are global ids, ``edges`` (2×m) and ``anchors`` local numbers, each edge once."""

    nodes: Tensor
    edges: Tensor
    features: Sparse
    anchors: Tensor = field(default_factory=_nothing)

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def adjacency(self) -> Sparse:
        """Â = D^-1/2 (A + I) D^-1/2, where D are the degrees of A + I."""
        loops = torch.arange(len(self))
        rows = torch.cat([self.edges[0], self.edges[1], loops])
        columns = torch.cat([self.edges[1], self.edges[0], loops])
        scale = torch.bincount(rows, minlength=len(self)).double().rsqrt()
        values = (scale[rows] * scale[columns]).float()
        return Sparse.of(rows, columns, values, (len(self), len(self)), symmetric=True)

    @cached_property
    def all(self) -> ReceptiveField:
        """What two convolutions see of all nodes."""
        return ReceptiveField(self.adjacency, self.adjacency, self.features)

    @cached_property
    def _fields(self) -> dict[bytes, ReceptiveField]:
        return {}

    def receptive_field(self, nodes: Tensor) -> ReceptiveField:
        """What two convolutions see of these nodes (sorted, each once); the last few are cached.

        Nodes more than two steps away from a client's few labelled nodes do not affect its loss.
        """
        if len(nodes) == len(self):
            return self.all
        name = nodes.numpy().tobytes()
        if name not in self._fields:
            outer, near = self.adjacency.pick(nodes).compact()
            inner, far = self.adjacency.pick(near).compact()
            while len(self._fields) >= REMEMBERED:
                del self._fields[next(iter(self._fields))]
            self._fields[name] = ReceptiveField(outer, inner, self.features.pick(far))
        return self._fields[name]

    @cached_property
    def keys(self) -> Tensor:
        """A number per edge, ``smaller end * nodes + larger end``, in order, for looking up pairs."""
        low, high = self.edges.min(0).values, self.edges.max(0).values
        return (low * len(self) + high).sort().values

    def with_edges(self, edges: Tensor) -> Graph:
        """The graph with more edges (2×m local numbers); self-loops and edges that it has already add nothing."""
        if edges.dim() != 2 or len(edges) != 2:
            raise FedloomError(f"edges of shape {tuple(edges.shape)}: give a source row and a target row, 2×m.")
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(self):
            raise FedloomError(f"an edge names node {int(edges.max())}: the nodes are numbered 0 to {len(self) - 1}.")
        new = unique_edges(edges, len(self))
        fresh = new[:, ~torch.isin(new[0] * len(self) + new[1], self.keys)]
        return replace(self, edges=torch.cat([self.edges, fresh], 1))


def unique_edges(edges: Tensor, nodes: int) -> Tensor:
    """Undirected edges, each once with its smaller end first, in order; no self-loops."""
    low, high = edges.min(0).values, edges.max(0).values
    codes = torch.unique((low * nodes + high)[low != high])
    return torch.stack([codes // nodes, codes % nodes]) if nodes else edges


class Graphs:
    """The graphs of a federation: one block per client, then the whole graph as the last block.

    Block b has the node copies ``offsets[b]`` to ``offsets[b + 1] - 1``, in the order of its ``nodes``. A client may
    add edges to its own graph; nothing else ever changes. Copies of a model share these graphs; copying
    a model removes the edges that an earlier run added.
    """

    def __init__(self, clients: Sequence[Graph], whole: Graph) -> None:
        clients = [
            replace(graph, anchors=graph.anchors[torch.argsort(graph.nodes[graph.anchors])]) for graph in clients
        ]
        self._blocks = (*clients, whole)
        self._added: dict[int, tuple[Tensor, Graph]] = {}
        self.clients = len(clients)
        self.whole = len(clients)
        self.sizes = torch.tensor([len(graph) for graph in clients])
        self.offsets = torch.zeros(len(self._blocks) + 1, dtype=torch.int64)
        torch.cumsum(torch.tensor([len(graph) for graph in self._blocks]), 0, out=self.offsets[1:])
        self._starts: list[int] = self.offsets.tolist()
        self.features = whole.features.width
        self.anchors = [graph.anchors for graph in clients]
        """Each client's anchors as local numbers, in the order of their global ids."""
        self.anchor_ids = [graph.nodes[graph.anchors] for graph in clients]
        """The same as global ids."""
        self.id_hashes: list[Tensor] | None = None
        """Of clients that do not know each other's nodes: a hash of the salt and one of each of its nodes."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Graphs:
        self._added = {}
        return self

    @property
    def most_anchors(self) -> int:
        """How many anchors the client with the most of them has."""
        return max((len(anchors) for anchors in self.anchors), default=0)

    @property
    def copies(self) -> int:
        """How many node copies there are in all blocks."""
        return int(self.offsets[-1])

    @property
    def ids(self) -> Tensor:
        """The global id of every copy."""
        return torch.cat([graph.nodes for graph in self._blocks])

    def graph(self, block: int) -> Graph:
        """A block's graph, with the edges that its client added."""
        return self._added[block][1] if block in self._added else self._blocks[block]

    def original(self, block: int) -> Graph:
        """A block's graph without added edges."""
        return self._blocks[block]

    def positions(self, block: int) -> Tensor:
        """The numbers of all copies of a block, in the order of its nodes."""
        return torch.arange(int(self.offsets[block]), int(self.offsets[block + 1]))

    def blocks_of(self, x: Tensor) -> Tensor:
        """The block of every copy."""
        return torch.searchsorted(self.offsets, x, right=True) - 1

    def block_of(self, x: Tensor) -> int:
        """The block of a batch whose copies lie in one block; -1 where they lie in several."""
        low, high = (bisect_right(self._starts, int(end)) - 1 for end in torch.aminmax(x))
        return low if low == high else -1

    def hide_anchors(self) -> None:
        """Let clients find their anchors by hashes, as the sites of a deployment do; ids stand for their hashes."""
        salt = torch.zeros(1, dtype=torch.int64)
        self.id_hashes = [torch.cat([salt, graph.nodes + 1]) for graph in self._blocks[: self.clients]]

    def augment(self, client: int, edges: Tensor) -> None:
        """Set the edges (2×m local numbers) that a client adds to its graph, in place of earlier ones."""
        if not 0 <= client < self.clients:
            raise FedloomError(f"client {client} cannot add edges: the clients are numbered 0 to {self.clients - 1}.")
        if client in self._added and torch.equal(self._added[client][0], edges):
            return
        self._added.pop(client, None)
        if edges.numel():
            self._added[client] = (edges.clone(), self._blocks[client].with_edges(edges))
