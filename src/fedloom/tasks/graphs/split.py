"""One graph divided among clients who hold its border nodes in common.

Communities (Louvain: Blondel et al., Fast Unfolding of Communities in Large Networks, 2008) are dealt to clients in
turn, the largest first. Both ends of every edge between two clients are then held by both: they are the anchors, and
each client has all edges among the nodes it holds. The thesis (Tavakoli 2023, Fed-GALA) says that neighbourhoods are
not copied, but only with the edges between two copied nodes does its table 4.2 come out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.models.graph import Graph, Graphs
from fedloom.tasks.graphs.labelled_graph import LabelledGraph

CLIENTS = 4
"""The default number of clients that share a graph."""

_KNOWN: dict[str, Tensor] = {}
"""Communities found in this process: Louvain takes seconds on a graph of 20,000 nodes."""


@dataclass(frozen=True)
class SplitSizes:
    """What the clients of a split hold: one number per client, and their means."""

    communities: tuple[int, ...]
    anchors: tuple[int, ...]
    nodes: tuple[int, ...]
    edges: tuple[int, ...]

    def means(self) -> dict[str, float]:
        """Averages per client, and the ratio of anchors to nodes."""
        columns = {"communities": self.communities, "anchors": self.anchors, "nodes": self.nodes, "edges": self.edges}
        means = {name: sum(column) / len(column) for name, column in columns.items()}
        return {**means, "ratio": means["anchors"] / means["nodes"]}


def communities(graph: Graph, seed: int) -> Tensor:
    """The Louvain community of every node (networkx, resolution 1, this seed), numbered from the largest on.

    Communities of one size are ordered by their smallest node; a node without edges is a community of its own.
    """
    digest = hashlib.blake2b(graph.keys.numpy().tobytes(), digest_size=16).hexdigest()
    name = f"{len(graph)}/{seed}/{digest}"
    if name not in _KNOWN:
        import networkx as nx  # type: ignore[import-untyped,unused-ignore]

        network = nx.Graph()
        network.add_nodes_from(range(len(graph)))
        network.add_edges_from(torch.stack([graph.keys // len(graph), graph.keys % len(graph)], 1).tolist())
        found = nx.community.louvain_communities(network, resolution=1, seed=seed)
        numbers = torch.zeros(len(graph), dtype=torch.int64)
        for number, members in enumerate(sorted(found, key=lambda one: (-len(one), min(one)))):
            numbers[torch.tensor(sorted(members))] = number
        _KNOWN[name] = numbers
    return _KNOWN[name]


def assign_communities(graph: Graph, clients: int, seed: int) -> tuple[Tensor, Tensor]:
    """The owner of every node when communities are dealt to clients in turn, the largest first; and the communities."""
    if clients < 1:
        raise FedloomError(f"clients={clients}: a federation needs at least one client.")
    found = communities(graph, seed)
    count = int(found.max()) + 1 if len(found) else 0
    if clients > count:
        raise FedloomError(
            f"clients={clients}: the graph has {count} communities (seed {seed}), and a client gets at least one: use "
            "fewer clients."
        )
    return found % clients, found


def client_graphs(graph: Graph, owner: Tensor, clients: int) -> Graphs:
    """The graphs of clients that own these nodes; both ends of every edge between two clients are copied."""
    low, high = graph.edges
    crossing = owner[low] != owner[high]
    pieces = []
    for client in range(clients):
        own = owner == client
        border = torch.zeros(len(graph), dtype=torch.bool)
        touched = graph.edges[:, crossing & (own[low] | own[high])]
        border[touched.flatten()] = True
        pieces.append(induced_subgraph(graph, own | border, border))
    return Graphs(pieces, graph)


def induced_subgraph(graph: Graph, held: Tensor, anchors: Tensor) -> Graph:
    """The piece of a graph on the nodes of a mask, with all edges among them; ``anchors`` is a mask too."""
    nodes = held.nonzero().flatten()
    local = torch.full((len(graph),), -1)
    local[nodes] = torch.arange(len(nodes))
    edges = local[graph.edges]
    inside = (edges >= 0).all(0)
    return Graph(nodes, edges[:, inside], graph.features.pick(nodes), local[anchors.nonzero().flatten()])


@dataclass(frozen=True, eq=False)
class GraphSplit:
    """A divided graph: the clients' graphs, what they are called, and what they hold."""

    graphs: Graphs
    names: tuple[str, ...]
    sizes: SplitSizes


def split_graph(source: LabelledGraph, clients: int | None = None, seed: int = 0) -> GraphSplit:
    """A graph divided by its nodes' own clients where it names them, else by communities dealt to ``clients`` (4).

    ``seed`` is the one that networkx's Louvain gets.
    """
    if source.owner is None:
        count = CLIENTS if clients is None else clients
        owner, found = assign_communities(source.graph, count, seed)
        groups = torch.bincount(torch.unique(found) % count, minlength=count).tolist()
    else:
        owner, count = source.owner, len(source.owners)
        if clients not in (None, count):
            raise FedloomError(
                f"clients={clients}: the nodes of {source.name} belong to {count} clients; leave it out."
            )
        groups = [1] * count
    graphs = client_graphs(source.graph, owner, count)
    pieces = [graphs.original(client) for client in range(count)]
    held = SplitSizes(
        tuple(groups),
        tuple(len(piece.anchors) for piece in pieces),
        tuple(len(piece) for piece in pieces),
        tuple(piece.edges.shape[1] for piece in pieces),
    )
    return GraphSplit(graphs, source.owners, held)
