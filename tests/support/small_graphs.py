"""Small graphs for tests: complete graphs in a ring, and random ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from fedloom.models.graph import Graph, unique_edges
from fedloom.models.sparse import Sparse
from fedloom.tasks.graphs.labelled_graph import LabelledGraph, labelled_graph


def whole(nodes: int, edges: list[tuple[int, int]] | Tensor, width: int = 3, seed: int = 0) -> Graph:
    """A graph with random features, half of them zero."""
    pairs = edges if isinstance(edges, Tensor) else torch.tensor(edges, dtype=torch.int64).view(-1, 2).t()
    draws = torch.rand(nodes, width, generator=torch.Generator().manual_seed(seed))
    features = Sparse.from_dense(torch.where(draws > 0.5, draws, 0.0))
    return Graph(torch.arange(nodes), unique_edges(pairs, nodes), features)


def identity_graph(nodes: int, edges: list[tuple[int, int]]) -> Graph:
    """A graph whose nodes have unit vectors as features; its edges are left as they are given."""
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()
    return Graph(torch.arange(nodes), pairs, Sparse.from_dense(torch.eye(nodes)))


def random_graph(nodes: int, edges: int, width: int = 3, seed: int = 0) -> Graph:
    """A graph with at most so many edges, drawn at random."""
    draws = torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(seed + 1))
    return whole(nodes, draws, width, seed)


def clubs(sizes: tuple[int, ...] = (12, 10, 8, 8), classes: int = 3, seed: int = 0, **options: object) -> LabelledGraph:
    """Complete graphs in a ring, each of one class and joined to the next by one edge: communities beyond doubt."""
    starts = np.cumsum([0, *sizes])
    edges = [(a, b) for s, e in pairwise(starts) for a in range(s, e) for b in range(a + 1, e)]
    edges += [(int(e) - 1, int(e) % int(starts[-1])) for e in starts[1:]]
    random = np.random.default_rng(seed)
    nodes = int(starts[-1])
    labels = np.repeat(np.arange(len(sizes)), sizes) % classes
    x = np.eye(classes)[labels] + 0.1 * random.random((nodes, classes))
    place = np.arange(nodes) % 4
    masks = {"train": place < 2, "valid": place == 2, "test": place == 3}
    return labelled_graph(np.array(edges).T, x, labels, masks=masks, name="clubs", **options)  # type: ignore[arg-type]
