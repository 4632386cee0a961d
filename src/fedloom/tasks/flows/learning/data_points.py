"""From flows to batches of data points: a point is a flow as it was when one of its actions was placed.

All flows are stored one after another in three tables of tokens, nodes in placement order and edges sorted so that the
first v nodes of a flow own its first edges. A point is five numbers: the flow, the first row and the number of its
nodes (the last one is the target), the first row and the number of its edges. It contains the edges from placed nodes
into the target and none out of it. So a flow of n actions makes n points and is stored once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.tasks.flows.flow import Flow
from fedloom.tasks.flows.learning.flow_schema import (
    AttributeReader,
    FlowSchema,
    Vocabularies,
    edge_reader,
    flow_reader,
    node_reader,
)
from fedloom.tasks.flows.rules import Dialect


@dataclass(frozen=True, eq=False)
class FlowTable:
    """Flows as tokens: ``nodes`` × attributes, ``edges`` × (source, target, attributes), ``graphs`` × attributes.

    Sources and targets are numbers of nodes in placement order, within their flow. Flow i has the nodes from
    ``first_node[i]`` to ``first_node[i + 1]``, and edges likewise.
    """

    schema: FlowSchema
    nodes: Tensor
    edges: Tensor
    graphs: Tensor
    first_node: Tensor
    first_edge: Tensor

    @staticmethod
    def of(flows: Sequence[Flow], orders: Sequence[Sequence[int]], schema: FlowSchema) -> FlowTable:
        """The table of flows whose nodes are placed in the given orders."""
        if any(len(set(order)) != len(flow.nodes) for flow, order in zip(flows, orders, strict=True)):
            raise FedloomError("a placement order must contain each node of its flow once.")
        nodes = [flow.nodes[i] for flow, order in zip(flows, orders, strict=True) for i in order]
        edges = [edge for flow in flows for edge in flow.edges]
        pairs = [pair for flow, order in zip(flows, orders, strict=True) for pair in _ends(flow, order)]
        ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        first_node, first_edge = _starts(len(f.nodes) for f in flows), _starts(len(f.edges) for f in flows)
        owner = np.repeat(np.arange(len(flows)), np.diff(first_edge))
        sort = np.lexsort((ends[:, 0] > ends[:, 1], ends.max(1, initial=0), owner))
        tokens = _tokens(edges, schema.edge, edge_reader)
        return FlowTable(
            schema,
            torch.from_numpy(_tokens(nodes, schema.node, node_reader)),
            torch.from_numpy(np.concatenate([ends, tokens], 1)[sort]),
            torch.from_numpy(_tokens(flows, schema.graph, flow_reader)),
            torch.from_numpy(first_node),
            torch.from_numpy(first_edge),
        )

    def points(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The points (n × 5) and the rows of their targets in ``nodes``.

        Args:
            targets: a mask over all nodes. Those to which no placed node leads make no point.
        """
        sizes, lengths = self.first_node.diff(), self.first_edge.diff()
        flow_of = torch.arange(len(sizes)).repeat_interleave(sizes)
        offset = self.first_node[:-1].repeat_interleave(lengths)
        source, target = (self.edges[:, i].long() for i in (0, 1))
        backward = source > target
        later = offset + torch.maximum(source, target)
        into, out_of = (torch.bincount(later[some], minlength=len(self.nodes)) for some in (~backward, backward))
        known = (into + out_of).cumsum(0) - out_of  # of all flows before and of this one, up to those into it
        rows = (targets & (into > 0)).nonzero().flatten()
        flow = flow_of[rows]
        first_node, first_edge = self.first_node[flow], self.first_edge[flow]
        x = torch.stack([flow, first_node, rows - first_node + 1, first_edge, known[rows] - first_edge], 1)
        return x, rows


@dataclass(frozen=True, eq=False)
class FlowInputs:
    """From points to a model's input (a task's ``prepare``): one tensor per batch, padded to its largest flow.

    A row is ``[N, E, nodes, edges, graph tokens, N × node tokens, E × (source, target, edge tokens)]``; the target's
    tokens are all masked. ``dialect`` is that of the flows.
    """

    table: FlowTable
    dialect: Dialect | None = None

    @property
    def schema(self) -> FlowSchema:
        """The vocabularies of the tokens."""
        return self.table.schema

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that the data consist of besides their points."""
        return [self.table.nodes, self.table.edges, self.table.graphs]

    def __call__(self, points: Tensor) -> Tensor:
        """The packed tensor of some points (n × 5)."""
        table, count = self.table, len(points)
        flow, first_node, nodes, first_edge, edges = points.unbind(1)
        most = torch.stack([nodes, edges]).amax(1)
        node = _padded_rows(table.nodes, first_node, nodes - 1, int(most[0]))  # the target is masked like padding
        edge = _padded_rows(table.edges, first_edge, edges, int(most[1]))
        pieces = [most.expand(count, 2), points[:, [2, 4]], table.graphs[flow], node, edge]
        return torch.cat([piece.to(torch.int64) for piece in pieces], 1)


def _padded_rows(table: Tensor, first: Tensor, length: Tensor, most: int) -> Tensor:
    """Ranges of rows of a table, one per output row, padded with zeros to ``most``."""
    step = torch.arange(most)
    inside = step < length[:, None]
    picked = table.index_select(0, torch.where(inside, first[:, None] + step, 0).flatten())
    return picked.view(len(first), most, table.shape[1]).mul_(inside[:, :, None]).flatten(1)


def _ends(flow: Flow, order: Sequence[int]) -> Iterable[tuple[int, int]]:
    place = {flow.nodes[node].id: i for i, node in enumerate(order)}
    return [(place[edge.source], place[edge.target]) for edge in flow.edges]


def _starts(lengths: Iterable[int]) -> np.ndarray:
    starts: np.ndarray = np.cumsum([0, *lengths], dtype=np.int64)
    return starts


def _tokens(elements: Sequence[object], vocabularies: Vocabularies, read: AttributeReader) -> np.ndarray:
    """Elements × attributes."""
    columns = [vocabulary.numbers(map(read(name), elements)) for name, vocabulary in vocabularies.items()]
    return np.ascontiguousarray(np.array(columns, dtype=np.int32).reshape(len(vocabularies), -1).T)
