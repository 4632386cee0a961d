"""Graphs: the normalised adjacency, sparse products, what a batch sees, and edges that a client adds."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.models.graph import Graph, Graphs
from fedloom.models.sparse import Sparse
from support.small_graphs import random_graph, whole


def matrix(rows, columns, seed, dtype=torch.float32):
    draws = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return torch.where(draws > 0.6, draws - 0.7, 0.0)


def pair():
    """Two clients who share nodes 1 and 2 of a path of four, and the path."""
    path = whole(4, [(0, 1), (1, 2), (2, 3)])
    some, others = torch.tensor([2, 0, 1]), torch.tensor([1, 2, 3])
    first = Graph(some, torch.tensor([[1, 2], [2, 0]]), path.features.pick(some), anchors=torch.tensor([0, 2]))
    second = Graph(others, torch.tensor([[0, 1], [1, 2]]), path.features.pick(others), anchors=torch.tensor([0, 1]))
    return Graphs([first, second], path)


def test_the_normalised_adjacency_of_a_path_of_three_by_hand():
    root = 6**-0.5
    expected = torch.tensor([[1 / 2, root, 0], [root, 1 / 3, root], [0, root, 1 / 2]])
    assert torch.allclose(whole(3, [(0, 1), (1, 2)]).adjacency.to_dense(), expected)


def test_a_node_without_edges_sees_itself_alone():
    assert torch.equal(whole(2, []).adjacency.to_dense(), torch.eye(2))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(0, 99))
def test_a_sparse_product_and_its_gradient_are_the_dense_ones(rows, columns, width, seed):
    dense = matrix(rows, columns, seed)
    sparse = Sparse.from_dense(dense)
    assert torch.equal(sparse.to_dense(), dense)
    assert torch.equal(sparse.transpose.to_dense(), dense.t())
    right = torch.randn(columns, width, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    weights = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed + 1))
    found, expected = sparse @ right, dense @ right
    assert torch.allclose(found, expected, atol=1e-6)
    (mine,) = torch.autograd.grad((found * weights).sum(), right)
    (theirs,) = torch.autograd.grad((expected * weights).sum(), right)
    assert torch.allclose(mine, theirs, atol=1e-6)


def test_a_sparse_product_can_be_differentiated_twice():
    sparse = Sparse.from_dense(matrix(4, 5, 0))
    right = torch.randn(5, 2).requires_grad_()
    (first,) = torch.autograd.grad((sparse @ right).pow(3).sum(), right, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), right)
    other = right.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad((sparse.to_dense() @ other).pow(3).sum(), other, create_graph=True)
    assert torch.allclose(second, torch.autograd.grad(expected.sum(), other)[0], atol=1e-5)


def test_rows_are_picked_in_any_order_and_other_values_keep_the_places():
    dense = matrix(6, 4, 3)
    picked = Sparse.from_dense(dense).pick(torch.tensor([5, 0, 0, 2]))
    assert torch.equal(picked.to_dense(), dense[[5, 0, 0, 2]])
    doubled = picked.with_values(picked.values * 2)
    assert torch.equal(doubled.to_dense(), 2 * dense[[5, 0, 0, 2]])
    assert torch.equal(doubled.transpose.to_dense(), 2 * dense[[5, 0, 0, 2]].t())


def test_rows_are_divided_by_their_sums_and_empty_ones_stay_empty():
    dense = torch.tensor([[1.0, 3.0], [0.0, 0.0], [0.0, 5.0]])
    expected = torch.tensor([[0.25, 0.75], [0.0, 0.0], [0.0, 1.0]])
    assert torch.equal(Sparse.from_dense(dense).normalise_rows().to_dense(), expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 14), st.integers(0, 25), st.integers(0, 99))
def test_what_a_batch_sees_gives_the_rows_that_the_whole_graph_gives(nodes, edges, seed):
    graph = random_graph(nodes, edges, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(nodes, generator=generator)[: 1 + seed % nodes].sort().values
    field, every = graph.receptive_field(some), graph.all
    hidden = every.inner @ (every.features @ torch.eye(3))
    seen = field.outer @ (field.inner @ (field.features @ torch.eye(3))).relu()
    assert torch.allclose(seen, (every.outer @ hidden.relu())[some], atol=1e-6)
    assert len(field.features) <= nodes


def test_a_graph_remembers_a_bounded_number_of_fields():
    graph = random_graph(30, 40)
    for node in range(30):
        graph.receptive_field(torch.tensor([node]))
    assert len(graph._fields) == 16
    last = graph.receptive_field(torch.tensor([29]))
    assert graph.receptive_field(torch.tensor([29])) is last


def test_copies_are_numbered_by_block_and_a_batch_knows_its_block():
    graphs = pair()
    assert graphs.clients == graphs.whole == 2
    assert graphs.sizes.tolist() == [3, 3]
    assert graphs.offsets.tolist() == [0, 3, 6, 10]
    assert graphs.ids.tolist() == [2, 0, 1, 1, 2, 3, 0, 1, 2, 3]
    assert graphs.positions(1).tolist() == [3, 4, 5]
    assert graphs.blocks_of(torch.tensor([0, 2, 3, 9])).tolist() == [0, 0, 1, 2]
    assert graphs.block_of(torch.tensor([5, 3])) == 1
    assert graphs.block_of(torch.tensor([5, 6])) == -1


def test_anchors_are_in_the_order_of_their_global_ids():
    graphs = pair()
    assert [ids.tolist() for ids in graphs.anchor_ids] == [[1, 2], [1, 2]]
    assert [anchors.tolist() for anchors in graphs.anchors] == [[2, 0], [0, 1]]
    assert graphs.graph(0).anchors.tolist() == [2, 0]


def test_added_edges_change_the_clients_own_graph_and_no_other():
    graphs = pair()
    before = graphs.graph(0).adjacency.to_dense()
    graphs.augment(0, torch.tensor([[0], [1]]))
    assert graphs.graph(0).edges.shape == (2, 3)
    assert graphs.graph(0).adjacency.to_dense()[0, 1] == pytest.approx(1 / 3)
    assert graphs.original(0).edges.shape == graphs.graph(1).edges.shape == (2, 2)
    graphs.augment(0, torch.zeros(2, 0, dtype=torch.int64))
    assert torch.equal(graphs.graph(0).adjacency.to_dense(), before)


def test_later_additions_replace_earlier_ones_and_the_same_ones_cost_nothing():
    graphs = Graphs([whole(4, [(0, 1)])], whole(4, [(0, 1)]))
    graphs.augment(0, torch.tensor([[0], [2]]))
    first = graphs.graph(0)
    graphs.augment(0, torch.tensor([[0], [2]]))
    assert graphs.graph(0) is first
    graphs.augment(0, torch.tensor([[0], [3]]))
    assert graphs.graph(0).keys.tolist() == [0 * 4 + 1, 0 * 4 + 3]


def test_self_loops_and_edges_that_are_there_add_nothing():
    graph = whole(4, [(0, 1), (1, 2)])
    more = graph.with_edges(torch.tensor([[1, 2, 2, 3, 0, 0], [1, 1, 3, 2, 3, 3]]))
    assert sorted(map(tuple, more.edges.t().tolist())) == [(0, 1), (0, 3), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("client", "edges", "message"),
    [
        (2, torch.zeros(2, 1, dtype=torch.int64), "clients are numbered 0 to 1"),
        (0, torch.tensor([[0], [3]]), "nodes are numbered 0 to 2"),
        (0, torch.tensor([0, 1]), "2×m"),
    ],
)
def test_edges_that_cannot_be_are_refused(client, edges, message):
    with pytest.raises(FedloomError, match=message):
        pair().augment(client, edges)


def test_working_copies_share_the_graphs_and_begin_without_added_edges():
    graphs = pair()
    graphs.augment(0, torch.tensor([[0], [1]]))
    assert copy.deepcopy(graphs) is graphs
    assert graphs.graph(0) is graphs.original(0)
