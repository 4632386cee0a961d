"""FullGN: the graph network that predicts the next action of a flow.

Every categorical attribute has an embedding table, an element's embeddings are concatenated, and blocks in the
manner of Battaglia et al., Relational inductive biases, 2018, update edges, nodes and the graph in turn; all
aggregations are sums. It is the model of a thesis on personalised federated learning for action flows: six blocks of
width 90, "shared". Inputs are not 90 wide, so the first block has weights of its own and the other five share one
set. The head returns logits: cross-entropy has a softmax, and the document's would be a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, check_value
from fedloom.models.graph_batch import GraphBatch
from fedloom.models.graph_network_block import Block

Table = tuple[int, int]
"""The size of a vocabulary and the width of its embedding."""


class FullGN(nn.Module):
    """The next action of each flow of a batch: packed flows (see ``GraphBatch``) to N × classes logits.

    ``node``, ``edge`` and ``graph`` are the (vocabulary, width) of each of their attributes. With widths that add up
    to 117, 18 and 163 and with 27 classes this is the document's model for kinds of actions.
    """

    parts: ClassVar = {"head": ["head"]}
    unequal: ClassVar[str] = "flows differ in size and are not stacked"

    def __init__(
        self,
        node: Sequence[Table],
        edge: Sequence[Table],
        graph: Sequence[Table],
        classes: int,
        width: int = 90,
        blocks: int = 6,
    ) -> None:
        super().__init__()
        for name, number in {"width": width, "blocks": blocks, "classes": classes}.items():
            check_value(name, number, Count)
        self.blocks, self.attributes = blocks, (len(node), len(edge), len(graph))
        self.node, self.edge, self.graph = Encoder(node, "node"), Encoder(edge, "edge"), Encoder(graph, "graph")
        self.first = Block(self.node.width, self.edge.width, self.graph.width, width)
        self.shared = Block(width, width, width, width) if blocks > 1 else None
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))

    def features(self, x: Tensor) -> Tensor:
        """The final vectors of the target nodes, which are what the head sees: N × width."""
        batch = GraphBatch.of(x, self.attributes)
        graphs = self.node(batch.nodes), self.edge(batch.edges), self.graph(batch.graphs)
        if self.shared is None:
            return self.first.targets(graphs, batch.links)
        graphs = self.first(graphs, batch.links)
        for _ in range(self.blocks - 2):
            graphs = self.shared(graphs, batch.links)
        return self.shared.targets(graphs, batch.links)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of each flow's target."""
        logits: Tensor = self.head(self.features(x))
        return logits


class Encoder(nn.Module):
    """One embedding table per attribute; the embeddings are concatenated."""

    def __init__(self, tables: Sequence[Table], element: str) -> None:
        super().__init__()
        if not tables or min(min(table) for table in tables) < 1:
            raise FedloomError(
                f"a {element} has the attributes {list(tables)}: give (vocabulary, width) of at least one."
            )
        self.width = sum(width for _, width in tables)
        self.tables = nn.ModuleList(nn.Embedding(tokens, width) for tokens, width in tables)

    def forward(self, tokens: Tensor) -> Tensor:
        """N × attributes tokens to N × width."""
        return torch.cat([table(tokens[:, i]) for i, table in enumerate(self.tables)], 1)
