"""The graph autoencoder's loss: neighbours have embeddings with a large product, strangers a small one.

Kipf and Welling, Variational Graph Auto-Encoders, 2016, in the form without variance. The thesis prints a sum over all
pairs and describes a sample of them; this is the mean over the edges plus the mean over as many sampled non-edges.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.models.graph import Graph


def strangers(graph: Graph, generator: torch.Generator | None = None) -> Tensor:
    """As many pairs of different nodes without an edge between them as there are edges: 2×m, drawn at random.

    A little more is drawn and what turns out to be an edge is left out; a graph that is nearly complete gives fewer.
    """
    nodes, wanted = len(graph), graph.edges.shape[1]
    drawn = torch.randint(nodes, (2, wanted + wanted // 4 + 16), generator=generator)
    low, high = drawn.min(0).values, drawn.max(0).values
    known, keys = graph.keys, low * nodes + high
    place = torch.searchsorted(known, keys).clamp(max=max(len(known) - 1, 0))
    strange = low != high
    if len(known):
        strange &= known[place] != keys
    return drawn[:, strange][:, :wanted]


def reconstruction(z: Tensor, neighbours: Tensor, others: Tensor) -> Tensor:
    """``mean -log sigmoid(z_i z_j)`` over neighbours plus ``mean -log(1 - sigmoid(z_i z_j))`` over others."""
    ends = [z.index_select(0, torch.cat([neighbours[i], others[i]])) for i in (0, 1)]
    products, edges = (ends[0] * ends[1]).sum(1), neighbours.shape[1]
    near, far = products[:edges], products[edges:]
    return _mean(F.softplus(-near)) + _mean(F.softplus(far))


def _mean(values: Tensor) -> Tensor:
    """The mean, which is 0 of nothing (a client without edges)."""
    return values.sum() / max(len(values), 1)
