"""The graph convolutional network of Kipf and Welling, Semi-Supervised Classification with GCNs, ICLR 2017.

Z = Â ReLU(Â X W0) W1 without biases, as in Tavakoli 2023, Fed-GALA: Z has a column per class and is at once the
logits and the embedding of a graph auto-encoder. Inputs are numbers of node copies: the model knows the graphs, and
computes what a batch can see of the graph that it lies in. Features are sparse and only their nonzero values are
dropped, which is dropout all the same: a zero that is dropped stays zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.settings import Count, ShareBelowOne, check_value
from fedloom.models.graph import Graphs, ReceptiveField


class Weight(nn.Module):
    """A matrix (inputs × outputs) with Glorot's initial values."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))


class GCN(nn.Module):
    """Two graph convolutions over the graphs of a federation: ``forward(copies)`` gives the logits of these nodes."""

    parts: ClassVar = {"head": ["head"]}
    unequal: ClassVar[str] = "clients' graphs differ in size and are not stacked"

    def __init__(self, graphs: Graphs, features: int, classes: int, hidden: int = 128, dropout: float = 0.3) -> None:
        super().__init__()
        if features != graphs.features:
            raise FedloomError(f"features={features}: the nodes of these graphs have {graphs.features}.")
        check_value("classes", classes, Count)
        check_value("hidden", hidden, Count)
        check_value("dropout", dropout, ShareBelowOne)
        self.graphs = graphs
        self.body = Weight(features, hidden)
        self.head = Weight(hidden, classes)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n×classes) of node copies (n)."""
        return self._at(x, self._logits)

    def features(self, x: Tensor) -> Tensor:
        """Â H at node copies, where H is the hidden layer: what the head sees, for Â (H W1) = (Â H) W1."""
        return self._at(x, lambda field: field.outer @ self._hidden(field))

    def embed(self, block: int) -> Tensor:
        """Z of all nodes of a block's graph, in the order of its nodes."""
        return self._logits(self.graphs.graph(block).all)

    def _logits(self, field: ReceptiveField) -> Tensor:
        product: Tensor = _Narrow.apply(self._hidden(field), self.head.weight)  # type: ignore[no-untyped-call]
        return field.outer @ product

    def _hidden(self, field: ReceptiveField) -> Tensor:
        """H = ReLU(Â X W0), with what is dropped of X and of H while training."""
        inputs, width = field.features, self.body.weight.shape[1]
        if not self.training or self.drop.p == 0:
            return F.relu(field.inner @ (inputs @ self.body.weight))
        entries = len(inputs.values)
        kept = self.drop(torch.ones(entries + len(field.inner) * width))  # one mask for both is drawn faster
        hidden = F.relu(field.inner @ (inputs.with_values(inputs.values * kept[:entries]) @ self.body.weight))
        dropped: Tensor = hidden * kept[entries:].view_as(hidden)
        return dropped

    def _at(self, x: Tensor, layers: Callable[[ReceptiveField], Tensor]) -> Tensor:
        """Layers over the graph of each block in ``x`` (usually one), as far as its nodes can see."""
        block = self.graphs.block_of(x) if len(x) else 0
        if block >= 0:
            nodes, place = torch.unique(x - self.graphs.offsets[block], return_inverse=True)
            return layers(self.graphs.graph(block).receptive_field(nodes)).index_select(0, place)
        blocks = self.graphs.blocks_of(x)
        parts = [(blocks == block).nonzero().flatten() for block in torch.unique(blocks).tolist()]
        found = torch.cat([self._at(x[part], layers) for part in parts])
        return found.index_select(0, torch.argsort(torch.cat(parts)))


class _Narrow(torch.autograd.Function):
    """``hidden @ weight`` for few columns: a tall product with a narrow result is slow, its transpose is not."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return (weight.t() @ hidden.t()).t().contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        hidden, weight = ctx.saved_tensors
        return gradients[0] @ weight.t(), (gradients[0].t() @ hidden).t()
