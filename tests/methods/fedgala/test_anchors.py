"""Means of anchors against brute force, and the edges that are drawn from them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.methods.fedgala.anchors import anchor_edges, anchor_means, match_hashes, nearest_nodes, refuse_other_salts
from support.small_graphs import identity_graph


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 8), unique=True, max_size=6), min_size=1, max_size=5), st.integers(0, 99))
def test_every_anchor_gets_the_mean_over_its_owners(owned, seed):
    ids = [torch.tensor(sorted(some), dtype=torch.int64) for some in owned]
    most = max(len(some) for some in owned)
    embeddings = torch.randn(len(ids), most, 3, generator=torch.Generator().manual_seed(seed))
    means = anchor_means(embeddings, ids)
    for k, some in enumerate(ids):
        for place, node in enumerate(some.tolist()):
            everybody = [
                embeddings[j, other.tolist().index(node)] for j, other in enumerate(ids) if node in other.tolist()
            ]
            assert torch.allclose(means[k, place], torch.stack(everybody).mean(0), atol=1e-6)
        assert not means[k, len(some) :].any()


def test_an_anchor_is_joined_to_the_nearest_node_that_is_neither_itself_nor_a_neighbour():
    four = identity_graph(4, [(0, 1)])
    z = torch.tensor([[9.0, 0.0], [8.0, 0.0], [1.0, 0.0], [2.0, 5.0]])
    assert nearest_nodes(four, torch.tensor([0]), z, torch.tensor([[1.0, 0.0]])).tolist() == [3]
    assert nearest_nodes(four, torch.tensor([0]), z, torch.tensor([[1.0, -1.0]])).tolist() == [2]
    assert nearest_nodes(four, torch.tensor([2, 1]), z, torch.tensor([[1.0, 0.0], [0.0, 1.0]])).tolist() == [0, 3]


def test_who_knows_everybody_is_joined_to_nobody():
    three = identity_graph(3, [(0, 1), (2, 0)])
    chosen = nearest_nodes(three, torch.tensor([0]), torch.randn(3, 2), torch.randn(1, 2))
    assert chosen.tolist() == [-1]
    assert anchor_edges(torch.tensor([0]), chosen).shape == (2, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 9), st.data())
def test_at_most_one_new_edge_per_anchor_none_of_them_a_loop_or_known(nodes, data):
    every = [(i, j) for i in range(nodes) for j in range(i)]
    edges = data.draw(st.lists(st.sampled_from(every), unique=True))
    anchors = torch.tensor(data.draw(st.lists(st.integers(0, nodes - 1), unique=True)), dtype=torch.int64)
    luck = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    here = identity_graph(nodes, edges)
    z = torch.randn(nodes, 3, generator=luck)
    new = anchor_edges(anchors, nearest_nodes(here, anchors, z, torch.randn(len(anchors), 3, generator=luck)))
    assert new.shape[1] <= len(anchors)
    for i, j in new.t().tolist():
        assert i != j
        assert (max(i, j), min(i, j)) not in edges
    grown = here.with_edges(new)
    assert len(edges) <= grown.edges.shape[1] <= len(edges) + new.shape[1]


def test_hashes_of_two_clients_find_their_common_nodes() -> None:
    """By hand: nodes 30 and 10 are at clients 0 and 1, node 50 at 1 and 2; -1 is no node."""
    table, ids = match_hashes(torch.tensor([[7, 30, 20, 10, -1], [7, 10, 50, 30, 60], [7, 50, -1, -1, -1]]))
    assert table.tolist() == [[2, 0, -1], [0, 2, 1], [0, -1, -1]]
    assert [some.tolist() for some in ids] == [[10, 30], [10, 30, 50], [50]]
    assert match_hashes(torch.tensor([[7, 1, 1], [7, 2, -1]]))[0].shape == (2, 0)  # one client sends a hash twice
    nothing, nobody = match_hashes(torch.tensor([[7, 1], [7, 2]]))
    assert nothing.shape == (2, 0)
    assert [len(some) for some in nobody] == [0, 0]


@pytest.mark.parametrize(
    ("salts", "others"),
    [
        ([7, 7, 7], []),
        ([7], []),
        ([7, 8, 7], [1]),
        ([8, 7, 9, 7], [0, 2]),
        ([7, 8], [0, 1]),
        ([7, 8, 7, 8], [0, 1, 2, 3]),
    ],
)
def test_a_salt_that_is_not_that_of_most_is_found(salts: list[int], others: list[int]) -> None:
    found = refuse_other_salts(torch.tensor([[salt, 1, 2] for salt in salts]))
    assert list(found) == others
    assert all("its salt is not that of most sites" in why for why in found.values())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 8), unique=True, max_size=6), min_size=1, max_size=5))
def test_a_node_is_an_anchor_exactly_where_another_client_has_it(owned):
    rows = torch.full((len(owned), 7), -1)
    rows[:, 0] = 5
    for client, some in enumerate(owned):
        rows[client, 1 : len(some) + 1] = torch.tensor(some, dtype=torch.int64)
    table, ids = match_hashes(rows)
    for client, some in enumerate(owned):
        others = {node for other, theirs in enumerate(owned) if other != client for node in theirs}
        assert ids[client].tolist() == sorted(others & set(some))
        mine = table[client][table[client] >= 0]
        assert [some[place] for place in mine.tolist()] == ids[client].tolist()
