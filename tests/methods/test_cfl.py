"""CFL, by hand: when a cluster is split, into which halves, and what stays whole."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.methods.cfl import bipartition
from support.clusters import clients_in_a_plane, replies, server_context


def angles(*degrees: float) -> torch.Tensor:
    return torch.tensor([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees]).double()


def test_updates_are_parted_by_complete_linkage_on_their_angles():
    """Single linkage would cut off the last one alone; complete linkage looks at the widest angle within a half."""
    assert bipartition(angles(0, 28, 60, 100)).tolist() == [False, False, True, True]
    assert bipartition(angles(0, 20, 40, 200)).tolist() == [False, False, False, True]
    assert bipartition(angles(200, 0, 20, 40)).tolist() == [True, False, False, False]


@given(st.lists(st.tuples(st.booleans(), st.floats(-30, 30), st.floats(0.1, 9)), min_size=3, max_size=8))
@settings(max_examples=60, deadline=None)
def test_two_bundles_of_directions_are_parted_whatever_their_lengths(clients):
    turned = torch.tensor([back for back, _, _ in clients])
    updates = angles(*(180 * back + angle for back, angle, _ in clients))
    leaving = bipartition(updates * torch.tensor([[length] for _, _, length in clients]))
    assert 0 < int(leaving.sum()) <= len(clients) / 2
    if turned.any() and not turned.all():
        assert torch.equal(leaving, turned) or torch.equal(leaving, ~turned)


OPPOSED = [[2.0, 0.1], [2.0, -0.1], [-2.0, 0.1], [-2.0, -0.1]]


def cfl_state(*clusters: int) -> dict[str, torch.Tensor]:
    return {"rows": torch.zeros(max(clusters) + 1, 2), "cluster": torch.tensor(clusters)}


def test_a_torn_cluster_is_split_and_each_half_gets_its_own_mean():
    where = server_context(clients_in_a_plane(4), 21)
    state = fl.CFL().aggregate(cfl_state(0, 0, 0, 0), replies(where, OPPOSED, [0, 1, 2, 3], [0.3, 0.2, 0.1, 0.4]))
    assert state["cluster"].tolist() == [0, 0, 1, 1]
    assert torch.allclose(state["rows"], torch.tensor([[2.0, 0.02], [-2.0, -0.06]]))


@pytest.mark.parametrize(
    ("what", "method", "number", "ids"),
    [
        ("in round 20", fl.CFL(), 20, [0, 1, 2, 3]),
        ("while the mean still moves", fl.CFL(eps1=1e-6), 21, [0, 1, 2, 3]),
        ("while no client pulls hard", fl.CFL(eps2=2.1), 21, [0, 1, 2, 3]),
        ("without all of its clients", fl.CFL(), 21, [0, 1, 2]),
    ],
)
def test_a_cluster_is_not_split(what, method, number, ids):
    weights = [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.5]][len(ids) == 3]
    rows = torch.tensor(OPPOSED)[ids] + 1e-3
    state = method.aggregate(
        cfl_state(0, 0, 0, 0), replies(server_context(clients_in_a_plane(4), number), rows.tolist(), ids, weights)
    )
    assert state["cluster"].tolist() == [0, 0, 0, 0], what
    assert torch.allclose(state["rows"], torch.tensor([weights]) @ rows)


def test_a_cluster_of_two_is_not_split():
    where = server_context(clients_in_a_plane(4), 21)
    state = fl.CFL().aggregate(cfl_state(0, 1, 1, 0), replies(where, OPPOSED, [0, 1, 2, 3], [0.25] * 4))
    assert state["cluster"].tolist() == [0, 1, 1, 0]


def test_clients_held_out_of_training_stay_with_the_larger_half():
    where = server_context(clients_in_a_plane(5), 21, clients=[0, 2, 3, 4])
    rows = [OPPOSED[0], OPPOSED[2], OPPOSED[3], [-2.0, 0.0]]
    state = fl.CFL(eps1=1.5).aggregate(
        cfl_state(0, 0, 0, 0, 0), replies(where, rows, [0, 2, 3, 4], [0.4, 0.2, 0.2, 0.2])
    )
    assert state["cluster"].tolist() == [1, 0, 0, 0, 0]
    assert torch.allclose(state["rows"], torch.tensor([[-2.0, 0.0], [2.0, 0.1]]))


def test_a_cluster_without_a_reply_keeps_its_model():
    where = server_context(clients_in_a_plane(4), 5)
    state = {"rows": torch.tensor([[1.0, 1.0], [7.0, 7.0]]), "cluster": torch.tensor([0, 0, 1, 1])}
    after = fl.CFL().aggregate(state, replies(where, [[3.0, 1.0], [5.0, 1.0]], [0, 1], [0.25, 0.75]))
    assert after["rows"].tolist() == [[4.5, 1.0], [7.0, 7.0]]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"eps1": 0}, "eps1=0: it must be above 0"),
        ({"eps2": math.nan}, "eps2=nan: it must be a finite number"),
        ({"warmup": -1}, "warmup=-1: it must be at least 0"),
    ],
)
def test_impossible_settings_are_refused(settings, sentence):
    with pytest.raises(FedloomError, match=sentence):
        fl.CFL(**settings)
