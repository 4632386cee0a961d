"""FeSEM, by hand: nearest centres, means of their clients, and the first centres."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from support.checkpoints import final
from support.clusters import clients_in_a_plane, clients_on_a_line, replies, server_context


def test_clients_go_to_the_nearest_centre_and_centres_to_the_mean_of_their_clients():
    where = server_context(clients_in_a_plane(4), 2)
    state = {"rows": torch.tensor([[0.0, 0.0], [10.0, 0.0], [50.0, 50.0]]), "cluster": torch.tensor([1, 0, 0, 2])}
    rows = [[1.0, 0.0], [9.0, 2.0], [11.0, 0.0]]
    after = fl.FeSEM(clusters=3).aggregate(state, replies(where, rows, [0, 1, 3], [0.5, 0.2, 0.3]))
    assert after["cluster"].tolist() == [0, 1, 0, 1]
    assert torch.allclose(after["rows"], torch.tensor([[1.0, 0.0], [10.2, 0.8], [50.0, 50.0]]))


def test_centres_do_not_repel_each_other():
    """Two centres may come as near to each other as their clients are."""
    where = server_context(clients_in_a_plane(2), 2)
    state = {"rows": torch.tensor([[0.0, 0.0], [10.0, 0.0]]), "cluster": torch.tensor([0, 1])}
    after = fl.FeSEM().aggregate(state, replies(where, [[4.9, 0.0], [5.1, 0.0]], [0, 1], [0.5, 0.5]))
    assert torch.allclose(after["rows"], torch.tensor([[4.9, 0.0], [5.1, 0.0]]))


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_first_centres_are_never_two_of_the_same_point(seed):
    points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]).repeat(4, 1)
    chosen = fl.FeSEM(clusters=3).seeds(points, server_context(clients_in_a_plane(2), 1, seed=seed))
    assert sorted(place % 3 for place in chosen) == [0, 1, 2]


def test_more_centres_than_different_models_are_no_obstacle(tmp_path):
    state = final(tmp_path / "run", fl.FeSEM(clusters=3), clients_on_a_line([2.0, 2.0, 2.0]), rounds=2)
    assert set(state.server["cluster"].tolist()) == {0}


def test_the_first_centres_are_drawn_far_apart_more_often_than_near():
    """From 0, the points 1 and 3 are drawn with probabilities 1/10 and 9/10."""
    points = torch.tensor([[0.0], [1.0], [3.0]])
    where = server_context(clients_in_a_plane(2), 1)
    drawn = [fl.FeSEM().seeds(points, replace(where, seed=seed)) for seed in range(600)]
    from_zero = [second for first, second in drawn if first == 0]
    assert 150 < len(from_zero) < 250  # 200 ± 4 standard deviations of a third of 600
    assert from_zero.count(2) / len(from_zero) == pytest.approx(0.9, abs=0.09)  # 4 standard deviations
