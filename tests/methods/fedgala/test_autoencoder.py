"""The autoencoder's loss by hand, and what may be drawn as a stranger."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.methods.fedgala.autoencoder import reconstruction, sample_non_edges
from support.small_graphs import identity_graph


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_the_loss_of_three_nodes_by_hand():
    z = torch.tensor([[1.0, 0.0], [2.0, 1.0], [0.0, -3.0]])
    found = reconstruction(z, torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0], [2]]))
    near = (-math.log(sigmoid(2.0)) - math.log(sigmoid(-3.0))) / 2
    far = -math.log(1 - sigmoid(0.0))
    assert float(found) == pytest.approx(near + far, rel=1e-6)


def test_a_client_without_edges_has_nothing_to_rebuild():
    lonely = identity_graph(3, [])
    assert float(reconstruction(torch.ones(3, 2), lonely.edges, sample_non_edges(lonely))) == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.data())
def test_strangers_are_pairs_without_an_edge(nodes, data):
    every = [(i, j) for i in range(nodes) for j in range(i)]
    edges = data.draw(st.lists(st.sampled_from(every), unique=True))
    turned = [(j, i) if data.draw(st.booleans()) else (i, j) for i, j in edges]
    drawn = sample_non_edges(identity_graph(nodes, turned), torch.Generator().manual_seed(1))
    assert drawn.shape[1] <= len(edges)
    for i, j in drawn.t().tolist():
        assert i != j
        assert (max(i, j), min(i, j)) not in edges


def test_a_sparse_graph_has_as_many_strangers_as_edges_and_others_every_time():
    line = identity_graph(200, [(i, i + 1) for i in range(199)])
    luck = torch.Generator().manual_seed(0)
    first, second = sample_non_edges(line, luck), sample_non_edges(line, luck)
    assert first.shape == second.shape == (2, 199)
    assert not torch.equal(first, second)
