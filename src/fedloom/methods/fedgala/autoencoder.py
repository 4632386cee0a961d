"""The graph autoencoder's loss: neighbours have embeddings with a large product, other pairs a small one.

Kipf and Welling, Variational Graph Auto-Encoders, 2016, https://arxiv.org/abs/1611.07308, in the form without variance.
The thesis of Fed-GALA prints a sum over all pairs and describes a sample of them; this is the mean over the edges plus
the mean over as many sampled non-edges.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.methods.fedgala.client_graphs import ClientGraph


def sample_non_edges(graph: ClientGraph, generator: torch.Generator | None = None) -> Tensor:
    """Random pairs of different nodes without an edge, as many as there are edges: 2×m.

    It draws some more pairs and leaves edges out; a graph that is nearly complete gives fewer pairs.
    """
    nodes, wanted = len(graph), graph.edges.shape[1]
    pairs = torch.randint(nodes, (2, wanted + wanted // 4 + 16), generator=generator)
    low, high = pairs.min(0).values, pairs.max(0).values
    known, keys = graph.keys, low * nodes + high
    place = torch.searchsorted(known, keys).clamp(max=max(len(known) - 1, 0))
    apart = low != high
    if len(known):
        apart &= known[place] != keys
    return pairs[:, apart][:, :wanted]


def reconstruction(z: Tensor, neighbours: Tensor, others: Tensor) -> Tensor:
    """``mean -log sigmoid(z_i z_j)`` over neighbours plus ``mean -log(1 - sigmoid(z_i z_j))`` over others."""
    ends = [z.index_select(0, torch.cat([neighbours[i], others[i]])) for i in (0, 1)]
    products, edges = (ends[0] * ends[1]).sum(1), neighbours.shape[1]
    near, far = products[:edges], products[edges:]
    return _mean(F.softplus(-near)) + _mean(F.softplus(far))


def _mean(values: Tensor) -> Tensor:
    """The mean; 0 without values (a client without edges)."""
    return values.sum() / max(len(values), 1)
