"""One block of a full graph network: edges, then nodes, then graphs are updated, each by a small network.

    e' = phi_e([v_src, v_dst, e, u])    v' = phi_v([v, sum of e' into v, u])    u' = phi_u([sum of v', sum of e', u])

The first linear layer of a phi acts on a concatenation, so it is a sum of products of its column blocks. Each product
is taken once per sender, receiver, edge or graph and copied to where it is needed; the concatenation never exists.
``formula`` computes it with torch's own operations. ``BlockFunction`` computes the same with its gradient written out,
which saves a seventh of a training step (bench/graphs.py): sums are written where they are needed, and no gradient of a
slice is padded and added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.models.graph_batch import Connectivity

BatchVectors = tuple[Tensor, Tensor, Tensor]
"""The vectors of all nodes, edges and graphs of a batch."""
EPSILON = 1e-5


class Weights(NamedTuple):
    """The tensors of one phi."""

    first: Tensor
    bias: Tensor
    second: Tensor
    second_bias: Tensor
    scale: Tensor
    shift: Tensor

    def columns(self, *pieces: Tensor | int) -> tuple[Tensor, ...]:
        """The first layer's weights for each piece (or width) of its input, transposed: ``piece @ columns``."""
        return torch.split(self.first.t(), [p if isinstance(p, int) else p.shape[1] for p in pieces])

    def rest(self, first: Tensor) -> Tensor:
        """What follows the first linear layer."""
        hidden = F.linear(F.relu(first), self.second, self.second_bias)
        return F.layer_norm(F.relu(hidden), self.scale.shape, self.scale, self.shift, EPSILON)


class Phi(nn.Module):
    """Linear, ReLU, linear, ReLU, layer norm, on pieces of these widths side by side."""

    def __init__(self, pieces: Sequence[int], width: int) -> None:
        super().__init__()
        self.first = nn.Linear(sum(pieces), width)
        self.second = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width, eps=EPSILON)

    def weights(self) -> Weights:
        """Its tensors."""
        first, second, norm = self.first, self.second, self.norm
        return Weights(first.weight, first.bias, second.weight, second.bias, norm.weight, norm.bias)


class Block(nn.Module):
    """The three phis of a block, for inputs of these widths."""

    def __init__(self, node: int, edge: int, graph: int, width: int) -> None:
        super().__init__()
        self.edge = Phi([node, node, edge, graph], width)
        self.node = Phi([node, width, graph], width)
        self.graph = Phi([width, width, graph], width)

    def forward(self, graphs: BatchVectors, links: Connectivity) -> BatchVectors:
        """The new nodes, edges and graphs."""
        weights = (*self.edge.weights(), *self.node.weights(), *self.graph.weights())
        new: BatchVectors = BlockFunction.apply(links, *graphs, *weights)  # type: ignore[no-untyped-call]
        return new

    def targets(self, graphs: BatchVectors, links: Connectivity) -> Tensor:
        """The new target nodes alone: only edges into them matter, and no graph."""
        (v, e, u), last = graphs, links.last
        edge, node = self.edge.weights(), self.node.weights()
        source, target, own, graph = edge.columns(v, v, e, u)
        at = last.nodes @ v
        received = torch.addmm(edge.bias, u, graph).addmm(at, target)
        e = edge.rest((last.graph @ received).addmm(last.source @ v, source).addmm(last.edges @ e, own))
        own, inward, graph = node.columns(at, e, u)
        return node.rest(torch.addmm(node.bias, u, graph).addmm(at, own).addmm(last.graph.T @ e, inward))


def formula(links: Connectivity, v: Tensor, e: Tensor, u: Tensor, *weights: Tensor) -> BatchVectors:
    """The new nodes, edges and graphs; the weights are those of phi_e, phi_v and phi_u, one after the other."""
    edge, node, graph = (Weights(*weights[i : i + 6]) for i in (0, 6, 12))
    senders, receivers = links.senders, links.receivers
    source, target, own, of_graph = edge.columns(v, v, e, u)
    received = (links.receivers_graph @ torch.addmm(edge.bias, u, of_graph)).addmm(v[receivers], target)
    e = edge.rest((links.ends @ torch.cat([v[senders] @ source, received])).addmm(e, own))
    own, inward, of_graph = node.columns(v, e, u)
    came = F.pad((links.into @ e) @ inward, (0, 0, receivers.start, len(v) - receivers.stop))
    v = node.rest((links.nodes_graph @ torch.addmm(node.bias, u, of_graph)).addmm(v, own) + came)
    nodes, edges, own = graph.columns(v, e, u)
    first = torch.addmm(graph.bias, u, own).addmm(links.nodes_graph.T @ v, nodes)
    return v, e, graph.rest(first.addmm(links.edges_graph.T @ e, edges))


class BlockFunction(torch.autograd.Function):
    """``formula`` with its gradient written out."""

    @staticmethod
    def forward(ctx: Any, links: Connectivity, v: Tensor, e: Tensor, u: Tensor, *weights: Tensor) -> BatchVectors:
        edge, node, graph = (Weights(*weights[i : i + 6]) for i in (0, 6, 12))
        senders, receivers, width = links.senders, links.receivers, len(edge.bias)
        source, target, own, of_graph = edge.columns(v, v, e, u)
        ends = v.new_empty(senders.stop + receivers.stop - receivers.start, width)
        torch.mm(v[senders], source, out=ends[: senders.stop])
        received = links.receivers_graph.times(torch.addmm(edge.bias, u, of_graph))
        torch.addmm(received, v[receivers], target, out=ends[senders.stop :])
        new_e, of_edges = _Rest.of(links.ends.times(ends).addmm_(e, own), edge)
        own, inward, of_graph = node.columns(v, width, u)
        came = links.into.times(new_e)
        first = links.nodes_graph.times(torch.addmm(node.bias, u, of_graph)).addmm_(v, own)
        first[receivers].addmm_(came, inward)
        new_v, of_nodes = _Rest.of(first, node)
        nodes, edges, own = graph.columns(width, width, u)
        sums = links.nodes_graph.T.times(new_v), links.edges_graph.T.times(new_e)
        new_u, of_graphs = _Rest.of(
            torch.addmm(graph.bias, u, own).addmm_(sums[0], nodes).addmm_(sums[1], edges), graph
        )
        ctx.links, ctx.came, ctx.sums, ctx.rests = links, came, sums, (of_edges, of_nodes, of_graphs)
        ctx.save_for_backward(v, e, u, *weights)
        return new_v, new_e, new_u

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # a gradient of this gradient will be asked for
            return None, *_gradients_of_formula(ctx, gradients)
        v, e, u, *weights = ctx.saved_tensors
        edge, node, graph = (Weights(*weights[i : i + 6]) for i in (0, 6, 12))
        links, (of_edges, of_nodes, of_graphs) = ctx.links, ctx.rests
        senders, receivers, (to_v, to_e, to_u) = links.senders, links.receivers, gradients
        width = len(edge.bias)

        # u' = phi_u([sum of v', sum of e', u])
        to_first, *graph_rest = of_graphs.back(to_u, graph)
        nodes, edges, own = graph.columns(width, width, u)
        graph_first = torch.cat([to_first.t() @ piece for piece in (*ctx.sums, u)], 1)
        graph_bias, back_u = to_first.sum(0), to_first @ own.t()
        to_v = links.nodes_graph.times(to_first @ nodes.t()).add_(to_v)
        to_e = links.edges_graph.times(to_first @ edges.t()).add_(to_e)

        # v' = phi_v([v, sum of e' into v, u])
        to_first, *node_rest = of_nodes.back(to_v, node)
        own, inward, of_graph = node.columns(v, width, u)
        by_graph = links.nodes_graph.T.times(to_first)
        node_first = torch.cat([to_first.t() @ v, to_first[receivers].t() @ ctx.came, by_graph.t() @ u], 1)
        node_bias = by_graph.sum(0)
        back_u.addmm_(by_graph, of_graph.t())
        to_e.add_(links.into.T.times(to_first[receivers] @ inward.t()))
        back_v = to_first @ own.t()

        # e' = phi_e([v_src, v_dst, e, u])
        to_first, *edge_rest = of_edges.back(to_e, edge)
        source, target, own, of_graph = edge.columns(v, v, e, u)
        ends = links.ends.T.times(to_first)
        sent, received = ends[: senders.stop], ends[senders.stop :]
        by_graph = links.receivers_graph.T.times(received)
        edge_first = torch.cat(
            [sent.t() @ v[senders], received.t() @ v[receivers], to_first.t() @ e, by_graph.t() @ u], 1
        )
        back_u.addmm_(by_graph, of_graph.t())
        back_v[senders].addmm_(sent, source.t())
        back_v[receivers].addmm_(received, target.t())
        to_edge = (edge_first, by_graph.sum(0), *edge_rest)
        to_node, to_graph = (node_first, node_bias, *node_rest), (graph_first, graph_bias, *graph_rest)
        return None, back_v, to_first @ own.t(), back_u, *to_edge, *to_node, *to_graph


def _gradients_of_formula(ctx: Any, gradients: tuple[Tensor, ...]) -> list[Tensor | None]:
    inputs, wanted = ctx.saved_tensors, ctx.needs_input_grad[1:]
    some = [x for x, needed in zip(inputs, wanted, strict=True) if needed]
    found = iter(torch.autograd.grad(formula(ctx.links, *inputs), some, gradients, create_graph=True))
    return [next(found) if needed else None for needed in wanted]


class _Rest(NamedTuple):
    """What a phi's gradient needs to know of what followed its first linear layer."""

    hidden: Tensor
    raw: Tensor
    mean: Tensor
    rstd: Tensor

    @staticmethod
    def of(first: Tensor, phi: Weights) -> tuple[Tensor, _Rest]:
        hidden = first.relu_()
        raw = torch.addmm(phi.second_bias, hidden, phi.second.t()).relu_()
        out, mean, rstd = torch.native_layer_norm(raw, phi.scale.shape, phi.scale, phi.shift, EPSILON)
        return out, _Rest(hidden, raw, mean, rstd)

    def back(self, gradient: Tensor, phi: Weights) -> tuple[Tensor, ...]:
        """From the gradient of a phi's outputs: that of its first layer's outputs, and of its other weights."""
        to_raw, to_scale, to_shift = torch.ops.aten.native_layer_norm_backward(
            gradient, self.raw, phi.scale.shape, self.mean, self.rstd, phi.scale, phi.shift, (True, True, True)
        )
        to_raw = torch.ops.aten.threshold_backward(to_raw, self.raw, 0)
        to_hidden = torch.ops.aten.threshold_backward(to_raw @ phi.second, self.hidden, 0)
        return to_hidden, to_raw.t() @ self.hidden, to_raw.sum(0), to_scale, to_shift
