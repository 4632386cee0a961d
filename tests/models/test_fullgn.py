"""FullGN: the document's parameter counts, its formula worked out by hand, and what must not matter."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import Layout
from fedloom.models.fullgn import FullGN
from fedloom.models.graph_batch import GraphBatch, Incidence
from fedloom.models.graph_network_block import Block, Phi

NODE, EDGE, GRAPH = [(9, 5), (4, 3)], [(6, 4)], [(5, 3), (3, 2)]
Flow = tuple[list[list[int]], list[list[int]], list[int]]
"""Tokens of each node, (source, target, tokens) of each edge, tokens of the graph."""


def pack_flows(flows: list[Flow], more_nodes: int = 0, more_edges: int = 0) -> Tensor:
    """Flows as the model takes them, by the words of the format and with loops; perhaps padded further."""
    most_nodes = max(len(nodes) for nodes, _, _ in flows) + more_nodes
    most_edges = max(len(edges) for _, edges, _ in flows) + more_edges
    rows = []
    for nodes, edges, graph in flows:
        row = [most_nodes, most_edges, len(nodes), len(edges), *graph]
        row += [token for node in nodes for token in node] + [0] * (len(NODE) * (most_nodes - len(nodes)))
        row += [token for edge in edges for token in edge] + [0] * ((2 + len(EDGE)) * (most_edges - len(edges)))
        rows.append(row)
    return torch.tensor(rows)


def network(seed: int = 0, classes: int = 7, width: int = 6, blocks: int = 6) -> FullGN:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = FullGN(NODE, EDGE, GRAPH, classes, width, blocks).double()
        for parameter in model.parameters():  # layer norms too
            nn.init.normal_(parameter, std=0.7)
        return model


@st.composite
def flows(draw: st.DrawFn) -> Flow:
    """Any small directed graph without self-loops, with any tokens."""
    size = draw(st.integers(1, 6))
    nodes = [[draw(st.integers(0, 8)), draw(st.integers(0, 3))] for _ in range(size)]
    pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8)) if pairs else []
    graph = [draw(st.integers(0, 4)), draw(st.integers(0, 2))]
    return nodes, [[a, b, draw(st.integers(0, 5))] for a, b in edges], graph


def chains(count: int) -> Tensor:
    """Chains of two nodes and more, all different, each with a masked target."""
    some = range(1, count + 1)
    return pack_flows(
        [
            ([[i, j % 4] for j in range(i)] + [[0, 0]], [[j, j + 1, i % 6] for j in range(i)], [i % 5, i % 3])
            for i in some
        ]
    )


batches = st.lists(flows(), min_size=1, max_size=4)


def phi(layers: Phi, *pieces: Tensor) -> Tensor:
    """The update function as the document writes it: layers on a concatenation."""
    return nn.Sequential(layers.first, nn.ReLU(), layers.second, nn.ReLU(), layers.norm)(torch.cat(pieces))


def block_by_loops(block: Block, v: list[Tensor], e: list[Tensor], u: Tensor, ends: list[tuple[int, int]]) -> Any:
    """One block on one graph, edge by edge and node by node."""
    zero = torch.zeros(block.edge.second.out_features, dtype=u.dtype)
    e = [phi(block.edge, v[a], v[b], edge, u) for edge, (a, b) in zip(e, ends, strict=True)]
    inward = [sum((edge for edge, (_, b) in zip(e, ends, strict=True) if b == i), zero) for i in range(len(v))]
    v = [phi(block.node, node, arriving, u) for node, arriving in zip(v, inward, strict=True)]
    return v, e, phi(block.graph, sum(v, zero), sum(e, zero), u)


def logits_by_loops(model: FullGN, flow: Flow) -> Tensor:
    nodes, edges, graph = flow
    v = list(model.node(torch.tensor(nodes)))
    e = list(model.edge(torch.tensor([edge[2:] for edge in edges]))) if edges else []
    u = model.graph(torch.tensor([graph]))[0]
    for block in [model.first, *[model.shared] * (model.blocks - 1)]:
        v, e, u = block_by_loops(block, v, e, u, [(a, b) for a, b, _ in edges])
    return model.head(v[-1])


# -- what the document says


@pytest.mark.parametrize(("inputs", "classes", "first", "head"), [((117, 18, 163), 27, 126_900, 10_647), ((119, 18, 165), 196, None, 26_026)])  # fmt: skip # noqa: E501
def test_parameter_counts_are_those_of_the_document(
    inputs: tuple[int, int, int], classes: int, first: int | None, head: int
) -> None:
    def size(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    model = FullGN([(29, inputs[0])], [(8, inputs[1])], [(8, inputs[2])], classes)
    node, edge, graph = inputs
    by_hand = (2 * node + edge + graph + 1) * 90 + (node + 90 + graph + 1) * 90 + (180 + graph + 1) * 90
    by_hand += 3 * (90 * 90 + 90 + 180)
    assert size(model.first) == by_hand
    assert first is None or size(model.first) == first
    assert size(model.shared) == 106_380
    assert size(model.head) == head
    assert size(model) == size(model.first) + 106_380 + head + 29 * node + 8 * edge + 8 * graph


def test_six_blocks_are_one_of_their_own_and_one_applied_five_times() -> None:
    assert Layout.of(FullGN(NODE, EDGE, GRAPH, 7)).width == Layout.of(FullGN(NODE, EDGE, GRAPH, 7, blocks=2)).width
    flow = ([[1, 2], [3, 1], [0, 0]], [[0, 1, 3], [1, 2, 2]], [2, 1])
    answers = [network(blocks=blocks)(pack_flows([flow])) for blocks in range(1, 7)]
    assert all(not torch.allclose(a, b) for a, b in pairwise(answers))


def test_the_head_is_the_head_and_everything_else_the_body() -> None:
    layout = Layout.of(network())
    assert {slot.name.split(".")[0] for slot in layout.slots if slot.part == "head"} == {"head"}
    assert {slot.name.split(".")[0] for slot in layout.slots if slot.part == "body"} == {
        "node", "edge", "graph", "first", "shared",
    }  # fmt: skip


def test_outputs_are_logits_of_each_flow_and_features_what_the_head_sees() -> None:
    model = network(classes=27)
    x = pack_flows(
        [([[1, 2], [0, 0]], [[0, 1, 1]], [1, 1]), ([[1, 2], [2, 2], [0, 0]], [[0, 1, 1], [1, 2, 3]], [1, 2])]
    )
    assert model(x).shape == (2, 27)
    assert model.features(x).shape == (2, 6)
    assert torch.equal(model.head(model.features(x)), model(x))
    assert not torch.allclose(model(x).exp().sum(1), torch.ones(2, dtype=torch.float64))


# -- the formula


def test_a_block_on_three_nodes_by_hand() -> None:
    """Nodes 0 -> 1 -> 2 and 0 -> 2, every vector one number wide, hidden vectors two wide.

    The second layers are identities and all biases 0, so phi(x) = norm(relu(W x)). A norm of (a, b) is (1, -1) where
    a > b and (-1, 1) where a < b (to 1e-5), times the scale, plus the shift.
    """
    block = Block(1, 1, 1, 2)
    with torch.no_grad():
        for layers in (block.edge, block.node, block.graph):
            layers.first.bias.zero_()
            layers.second.weight.copy_(torch.eye(2))
            layers.second.bias.zero_()
        block.edge.first.weight.copy_(torch.tensor([[2.0, 0, 1, 0], [0, 1, 0, 3]]))  # (2 v_src + e, v_dst + 3 u)
        block.edge.norm.weight.copy_(torch.tensor([2.0, 3]))
        block.edge.norm.bias.copy_(torch.tensor([1.0, 4]))
        block.node.first.weight.copy_(torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 2]]))  # (v + sum_1, sum_2 + 2 u)
        block.node.norm.weight.copy_(torch.tensor([1.0, 2]))
        block.node.norm.bias.copy_(torch.tensor([0.0, 3]))
        block.graph.first.weight.copy_(torch.tensor([[1.0, 0, 0, 0, 5], [0, 1, 0.5, 0, 0]]))
        block.graph.norm.bias.copy_(torch.tensor([10.0, 20]))
    v, e, u = torch.tensor([[5.0], [1], [-4]]), torch.tensor([[1.0], [1], [2]]), torch.tensor([[1.0]])
    # e':  0->1: (2*5 + 1, 1 + 3) = (11, 4)   -> a > b -> ( 1*2 + 1, -1*3 + 4) = (3, 1)
    #      1->2: (2*1 + 1, -4 + 3) = (3, -1)  -> relu (3, 0), a > b           -> (3, 1)
    #      0->2: (2*5 + 2, -4 + 3) = (12, -1) -> relu (12, 0), a > b          -> (3, 1)
    # v':  0: nothing comes in: (5 + 0, 0 + 2) = (5, 2)                       -> (1, -2 + 3)     = ( 1, 1)
    #      1: (3, 1) comes in:  (1 + 3, 1 + 2) = (4, 3)                       -> (1, -2 + 3)     = ( 1, 1)
    #      2: (6, 2) comes in:  (-4 + 6, 2 + 2) = (2, 4), a < b               -> (-1, 2 + 3)     = (-1, 5)
    # u':  sum of v' (1, 7), of e' (9, 3): (1 + 5*1, 7 + 4.5) = (6, 11.5)     -> (-1 + 10, 1 + 20) = (9, 21)
    tokens = pack_flows([([[0, 0]] * 3, [[0, 1, 0], [1, 2, 0], [0, 2, 0]], [0, 0])])
    links = GraphBatch.of(tokens, (2, 1, 2)).links
    nodes, edges, graph = block((v, e, u), links)  # 0 sends, 1 does both, 2 receives: the order stays as it is
    torch.testing.assert_close(edges, torch.tensor([[3.0, 1]] * 3), atol=1e-4, rtol=0)
    torch.testing.assert_close(nodes, torch.tensor([[1.0, 1], [1, 1], [-1, 5]]), atol=1e-4, rtol=0)
    torch.testing.assert_close(graph, torch.tensor([[9.0, 21]]), atol=1e-4, rtol=0)
    torch.testing.assert_close(block.targets((v, e, u), links), torch.tensor([[-1.0, 5]]), atol=1e-4, rtol=0)


@given(batches, st.sampled_from([1, 2, 3, 6]))
@settings(max_examples=25, deadline=None)
def test_any_batch_gives_what_loops_over_edges_and_nodes_give(some: list[Flow], blocks: int) -> None:
    model = network(blocks=blocks)
    expected = torch.stack([logits_by_loops(model, flow) for flow in some])
    torch.testing.assert_close(model(pack_flows(some)), expected, atol=1e-9, rtol=1e-9)


@given(batches)
@settings(max_examples=10, deadline=None)
def test_gradients_are_those_of_the_loops(some: list[Flow]) -> None:
    model = network(blocks=4)

    def gradients(logits: Tensor) -> tuple[Tensor, ...]:
        loss = F.cross_entropy(logits, torch.arange(len(some)))
        return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True, materialize_grads=True)

    expected = gradients(torch.stack([logits_by_loops(model, flow) for flow in some]))
    for found, wanted in zip(gradients(model(pack_flows(some))), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-8, rtol=1e-7)


def test_a_block_may_be_differentiated_twice() -> None:
    """The gradient that is written out gives way to the formula where its own gradient is wanted."""
    block = network(width=2).first
    x = pack_flows([([[0, 0]] * 3, [[0, 1, 0], [1, 2, 0], [0, 2, 0]], [0, 0]), ([[0, 0]] * 2, [[0, 1, 0]], [0, 0])])
    links = GraphBatch.of(x, (2, 1, 2)).links
    with torch.random.fork_rng():
        torch.manual_seed(1)
        inputs = [
            torch.randn(n, width, dtype=torch.float64, requires_grad=True) for n, width in ((5, 8), (4, 4), (2, 5))
        ]

    def total(*graphs: Tensor) -> Tensor:
        return torch.stack([new.pow(3).sum() for new in block(graphs, links)])

    assert torch.autograd.gradcheck(total, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(total, inputs, fast_mode=True)


def test_gradients_reach_every_parameter() -> None:
    model = network()
    F.cross_entropy(model(chains(8)), torch.arange(8) % 7).backward()
    unseen = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert not unseen


# -- what must not matter


@pytest.mark.slow
@given(flows(), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_nodes_and_of_edges_does_not_matter(flow: Flow, random: Random) -> None:
    nodes, edges, graph = flow
    order = list(range(len(nodes) - 1))
    random.shuffle(order)
    order.append(len(nodes) - 1)  # the target stays the last
    place = {old: new for new, old in enumerate(order)}
    turned = [[place[a], place[b], token] for a, b, token in edges]
    random.shuffle(turned)
    model = network()
    torch.testing.assert_close(
        model(pack_flows([([nodes[i] for i in order], turned, graph)])),
        model(pack_flows([flow])),
        atol=1e-10,
        rtol=1e-10,
    )


@given(batches, st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_a_batch_of_flows_equals_the_flows_one_by_one(some: list[Flow], nodes: int, edges: int) -> None:
    model = network()
    alone = torch.cat([model(pack_flows([flow])) for flow in some])
    torch.testing.assert_close(model(pack_flows(some, nodes, edges)), alone, atol=1e-10, rtol=1e-10)


def test_what_follows_the_target_never_reaches_it_but_through_the_graph() -> None:
    """A node that the target leads to is seen through u only: with one block, whose u is the input, not at all."""
    model = network(blocks=1)
    before = ([[1, 2], [3, 1]], [[0, 1, 3]], [2, 1])
    after = ([[5, 2], [1, 2], [3, 1]], [[1, 2, 3], [2, 0, 1]], [2, 1])
    assert torch.allclose(model(pack_flows([before])), model(pack_flows([after])))
    assert not torch.allclose(network(blocks=3)(pack_flows([before])), network(blocks=3)(pack_flows([after])))


# -- the matrices it is made of


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.data())
@settings(max_examples=25, deadline=None)
def test_an_incidence_times_rows_is_the_matrix_product(rows: int, each: int, columns: int, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.integers(0, columns - 1), min_size=rows * each, max_size=rows * each))
    ones = torch.tensor(drawn).view(rows, each)
    dense = F.one_hot(ones, columns).sum(1).double()
    matrix = Incidence.of(ones, columns)
    x, y = torch.randn(columns, 3, dtype=torch.float64), torch.randn(rows, 3, dtype=torch.float64)
    torch.testing.assert_close(matrix @ x, dense @ x)
    torch.testing.assert_close(matrix.T @ y, dense.T @ y)


def test_an_incidence_may_be_differentiated_twice() -> None:
    matrix = Incidence.of(torch.tensor([[0, 2], [1, 1], [2, 0]]), 4)
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (matrix @ x).square(), x)
    assert torch.autograd.gradgradcheck(lambda x: (matrix @ x).square(), x)


# -- use


@pytest.mark.slow
def test_training_learns_a_batch_by_heart() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = FullGN(NODE, EDGE, GRAPH, 7, width=48, blocks=4)
    x, y = chains(7), torch.arange(7)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("wrong", [{"width": 0}, {"blocks": 0}, {"classes": 0}])
def test_a_network_without_anything_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(FedloomError, match=f"{next(iter(wrong))}=0"):
        FullGN(NODE, EDGE, GRAPH, **{"classes": 3, **wrong})


def test_elements_without_attributes_are_refused() -> None:
    with pytest.raises(FedloomError, match="a graph has the attributes"):
        FullGN(NODE, EDGE, [], 3)
