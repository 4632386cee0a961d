"""Centred clipping: by hand over two rounds, and how far one client can move it."""

import pytest
import torch

from fedloom.aggregation.centred_clipping import CentredClipping
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows


def test_two_rounds_by_hand():
    memory: dict[str, torch.Tensor] = {}
    rule = CentredClipping(radius=1.0)
    # From 0: changes 2 and 0.5 move by 1 and 0.5.
    assert float(aggregate(rule, [[2.0], [0.5]], memory=memory)) == pytest.approx(0.75)
    # From 0.75: 2 - 0.75 = 1.25 moves by 1, and 0.5 - 0.75 = -0.25 by itself.
    assert float(aggregate(rule, [[2.0], [0.5]], memory=memory)) == pytest.approx(0.75 + 0.375)


def test_where_clients_start_is_added_once():
    rows = torch.tensor([[12.0], [10.5]])
    memory: dict[str, torch.Tensor] = {}
    assert float(aggregate(CentredClipping(radius=1.0), rows, origin=torch.tensor([10.0]), memory=memory)) == 10.75
    assert memory["centre"].tolist() == [0.75]


def test_a_large_radius_makes_the_mean():
    rows = honest_rows(6, 4, 0)
    assert torch.allclose(aggregate(CentredClipping(radius=1e6), rows), rows.mean(0), atol=1e-5)


def test_one_client_moves_it_by_at_most_the_radius_over_all():
    honest = honest_rows(9, 4, 0)
    found = [
        aggregate(CentredClipping(radius=2.0), torch.cat([honest, torch.full((1, 4), value)])) for value in (0.0, 1e6)
    ]
    assert float((found[0] - found[1]).norm()) <= 2 * 2.0 / 10 + 1e-5


@pytest.mark.parametrize("settings", [{"radius": 0.0}, {"iterations": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(FedloomError, match=r"=0.*: it must be (above 0|at least 1)"):
        CentredClipping(**settings)
