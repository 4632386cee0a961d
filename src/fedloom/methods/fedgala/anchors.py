"""Anchors: nodes that several clients hold. Their mean embeddings, and the edges that clients add from them.

Tavakoli 2023 (Fed-GALA), phase 2: the server averages the embeddings of every anchor; each client joins each of its
anchors to the local node nearest to the average. The thesis searches all local nodes, so that a fifth of the new edges
exist already or lead from a node to itself; here both are left out of the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from fedloom.methods.fedgala.client_graphs import ClientGraph


def anchor_means(embeddings: Tensor, ids: Sequence[Tensor]) -> Tensor:
    """The mean embedding of every anchor over the clients that hold it, in each client's own order.

    ``embeddings`` is clients × most anchors × dimensions, client k's first ``len(ids[k])`` entries being real;
    ``ids[k]`` are the global numbers of its anchors.
    """
    everyone = torch.cat(list(ids))
    _, place = torch.unique(everyone, return_inverse=True)
    sums = torch.zeros(int(place.max()) + 1, embeddings.shape[2]) if len(place) else torch.zeros(0, embeddings.shape[2])
    real = torch.cat([embeddings[k, : len(some)] for k, some in enumerate(ids)])
    means = sums.index_add(0, place, real) / torch.bincount(place).unsqueeze(1)
    out, done = torch.zeros_like(embeddings), 0
    for k, some in enumerate(ids):
        out[k, : len(some)] = means[place[done : done + len(some)]]
        done += len(some)
    return out


def nearest_nodes(graph: ClientGraph, anchors: Tensor, z: Tensor, targets: Tensor) -> Tensor:
    """The local node that each anchor is joined to, -1 for none: ``argmax_l <target_i, z_l>`` over all local nodes but
    the anchor itself and its neighbours."""
    products = targets @ z.t()
    row_of = torch.full((len(graph),), -1)
    row_of[anchors] = torch.arange(len(anchors))
    ends = torch.cat([graph.edges, graph.edges.flip(0), anchors.expand(2, -1)], dim=1)
    mine = row_of[ends[0]] >= 0
    products[row_of[ends[0][mine]], ends[1][mine]] = -torch.inf
    best, chosen = products.max(1)
    return torch.where(best == -torch.inf, -1, chosen)


def anchor_edges(anchors: Tensor, chosen: Tensor) -> Tensor:
    """The edges from anchors to their chosen nodes: 2×m local numbers; two anchors may choose each other."""
    there = chosen >= 0
    return torch.stack([anchors[there], chosen[there]])


def refuse_other_salts(hashes: Tensor) -> dict[int, str]:
    """Why clients are left out whose salt is not that of most, by their places; all of them if no salt is frequent.

    ``hashes`` has a row per client, which begins with a hash that only depends on the salt.
    """
    reason = "its salt is not that of most sites: set the same salt in [data] of every site.toml"
    salts = hashes[:, 0].tolist()
    (usual, most), *others = Counter(salts).most_common(2)
    is_tie = any(times == most for _, times in others)
    return {place: reason for place, salt in enumerate(salts) if is_tie or salt != usual}


def match_hashes(hashes: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Which nodes several clients hold, found by the hashes of their ids.

    ``hashes`` has a row per client: a hash that only depends on the salt, those of its nodes, and -1 for no node. All
    are of one salt (``refuse_other_salts``).

    Returns:
        The local numbers of each client's anchors in the order of their hashes, clients × most anchors, with -1 for
        none; and the hashes of each client's anchors.
    """
    nodes = hashes[:, 1:]
    once = torch.cat([row[row >= 0].unique() for row in nodes])  # a hash that one client sends twice is not shared
    found, times = torch.unique(once, return_counts=True)
    is_shared = torch.isin(nodes, found[times > 1])
    mine = []
    for row, some in zip(nodes, is_shared, strict=True):
        numbers = some.nonzero().flatten()
        mine.append(numbers[row[numbers].argsort()])
    table = torch.full((len(nodes), max(map(len, mine))), -1)
    for place, numbers in enumerate(mine):
        table[place, : len(numbers)] = numbers
    return table, [row[numbers] for row, numbers in zip(nodes, mine, strict=True)]
