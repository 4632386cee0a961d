"""DnC: who stands out is left out."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.aggregation.dnc import DnC
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows


def test_by_hand():
    # Along the first axis the rows differ most; centred there they are -2.6, -1.6, -0.6, 0.4 and 4.4: the last goes.
    rows = [[0.0, 0.1], [1.0, 0.0], [2.0, 0.1], [3.0, 0.0], [7.0, 0.0]]
    assert aggregate(DnC(share=0.2), rows).tolist() == pytest.approx([1.5, 0.05])


@given(st.integers(0, 500))
def test_the_singular_vector_is_that_of_svd(seed):
    rows, clients = honest_rows(9, 20, seed), 9
    away = rows - rows.mean(0)
    scores = (away @ torch.linalg.svd(away.double())[2][0].float()).square()
    expected = rows[scores.argsort(descending=True)[2:].sort().values].mean(0)
    assert torch.allclose(aggregate(DnC(share=0.25), rows), expected, atol=1e-4), clients


def test_colluding_rows_that_hide_within_the_variance_are_found():
    """What one attack of the paper does: all hostile rows alike, a few deviations away in every coordinate."""
    honest = honest_rows(16, 200, 3)
    hostile = (honest.mean(0) - 1.5 * honest.std(0)).repeat(4, 1)
    found = aggregate(DnC(share=0.2), torch.cat([honest, hostile]))
    assert torch.allclose(found, honest.mean(0), atol=1e-5)


def test_without_hostile_clients_it_is_the_mean():
    rows = honest_rows(6, 4, 0)
    assert torch.equal(aggregate(DnC(share=0.0), rows), rows.mean(0))


@pytest.mark.parametrize("settings", [{"filtered": 0.0}, {"iterations": 0}, {"coordinates": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(FedloomError, match=r"=0.*: it must be (above 0|at least 1)"):
        DnC(**settings)
