"""Counting as a baseline of flows: which action followed the same actions before.

The context of an action is the kind of the action that leads to it, the connection between them, and the kind of the
action before. Contexts that were seen seldom back off to shorter ones, by Witten and Bell: the more different
actions followed a context, the more the shorter context counts (The zero-frequency problem, IEEE Transactions on
Information Theory 1991). A client's own counts back off to those of all clients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedloom.core.baseline import FittedBaseline
from fedloom.core.task import Task
from fedloom.tasks.flows.learning.data_points import FlowTable

Contexts = NDArray[np.int64]
"""The number of a point's context at each order, from the empty one to the longest: orders × points."""


@dataclass(frozen=True)
class CountsAnswer:
    """The probabilities of what comes next by counts.

    Args:
        contexts: The contexts of all points.
        counts: For each order the counts of each context, contexts × classes in coordinates.
        classes: How many classes there are.
        pooled: The counts that the empty context backs off to; None for all classes alike.
        words: What is answered.
    """

    contexts: Contexts
    counts: tuple[dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]], ...]
    classes: int
    pooled: FittedBaseline | None
    words: str

    def outputs(self, positions: Tensor) -> Tensor:
        """The logarithms of the probabilities of the classes at some points."""
        if self.pooled is None:
            shares = np.full((len(positions), self.classes), 1 / self.classes)
        else:
            shares = self.pooled.outputs(positions).double().exp().numpy()
        for order, counts in enumerate(self.counts):
            for place, context in enumerate(self.contexts[order, positions.numpy()].tolist()):
                if context in counts:
                    kinds, times = counts[context]
                    different, total = len(kinds), times.sum()
                    shares[place] *= different / (total + different)
                    shares[place, kinds] += times / (total + different)
        return torch.from_numpy(np.log(shares)).float()


@dataclass(frozen=True, eq=False)
class FlowCounts:
    """Counts of what follows the same actions.

    Args:
        table: The table that the points are cut from.
        points: The points of the task (n × 5).
    """

    table: FlowTable
    points: Tensor
    name: str = field(default="counts")
    own_words: str = field(default="counting what followed the same actions at each client, and elsewhere")

    @cached_property
    def contexts(self) -> Contexts:
        """The contexts of all points."""
        return flow_contexts(self.table, self.points)

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The counts after some points."""
        targets, levels = task.targets(positions).numpy(), []
        for contexts in self.contexts[:, positions.numpy()]:
            pairs, times = np.unique(np.stack([contexts, targets]), axis=1, return_counts=True)
            edges = np.flatnonzero(np.diff(pairs[0], prepend=-1, append=-1))
            levels.append(
                {int(pairs[0, a]): (pairs[1, a:b], times[a:b].astype(np.float64)) for a, b in pairwise(edges)}
                if len(targets)
                else {}
            )
        words = "counting what followed the same actions"
        return CountsAnswer(self.contexts, tuple(levels), task.federation.classes, pooled, words)


def flow_contexts(table: FlowTable, points: Tensor) -> Contexts:
    """The contexts of points at the orders 0 (none) to 3 (kind, connection, kind before).

    Args:
        table: The table that the points are cut from.
        points: The points (n × 5).
    """
    kind_of = table.nodes[:, list(table.schema.node).index("kind")].long()
    connection_of = np.unique(table.edges[:, 2:].numpy(), axis=0, return_inverse=True)[1].reshape(-1)
    into = _edge_into(table)
    _, first_node, _, first_edge, edges = points.unbind(1)
    # The edges of a point are sorted so that the last of them leads to the target.
    edge = first_edge + edges - 1
    source = first_node + table.edges[edge, 0]
    kind, connection = kind_of[source].numpy(), connection_of[edge.numpy()]
    before = into[source]
    earlier = torch.where(before < 0, -1, kind_of[first_node + table.edges[before.clamp(min=0), 0]]).numpy()
    nothing = np.zeros(len(points), dtype=np.int64)
    orders = [(nothing,), (kind,), (kind, connection), (kind, connection, earlier)]
    return np.stack([np.unique(np.stack(some), axis=1, return_inverse=True)[1].reshape(-1) for some in orders])


def _edge_into(table: FlowTable) -> Tensor:
    """For each node the first edge that leads to it from a node placed before; -1 where there is none."""
    flow_of = torch.arange(len(table.first_edge) - 1).repeat_interleave(table.first_edge.diff())
    source, target = table.edges[:, 0].long(), table.edges[:, 1].long()
    forward = (source < target).nonzero().flatten().flip(0)  # written last, the first edge stays
    into = torch.full((len(table.nodes),), -1, dtype=torch.int64)
    into[(table.first_node[flow_of] + target)[forward]] = forward
    return into
