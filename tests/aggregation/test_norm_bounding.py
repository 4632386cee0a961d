"""Norm bounding: the mean where nobody is above the bound, by hand above it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.aggregation.norm_bounding import NormBounding
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows


def test_by_hand():
    # Changes (3, 4) and (0, 1) from (1, 1); the bound of 1 makes the first (0.6, 0.8).
    found = aggregate(NormBounding(most=1.0), [[4.0, 5.0], [1.0, 2.0]], [0.5, 0.5], origin=torch.ones(2))
    assert found.tolist() == pytest.approx([1 + 0.3, 1 + 0.9])


def test_by_default_the_bound_is_the_median_norm():
    rows = [[1.0], [-2.0], [100.0]]
    assert float(aggregate(NormBounding(), rows)) == pytest.approx((1 - 2 + 2) / 3)


@given(st.integers(1, 8), st.integers(1, 9), st.integers(0, 1000))
def test_a_bound_that_nobody_reaches_makes_the_weighted_mean(clients, width, seed):
    rows, weights = honest_rows(clients, width, seed), torch.rand(clients) + 0.1
    weights /= weights.sum()
    found = aggregate(NormBounding(most=1e6), rows, weights.tolist(), origin=honest_rows(1, width, 5)[0])
    assert torch.allclose(found, weights @ rows, atol=1e-5)


def test_a_run_with_a_bound_that_nobody_reaches_is_fedavg():
    task = fl.task("digits", clients=5)
    bounded, plain = (
        fl.run(task, "fedavg", rounds=2, aggregation=kind) for kind in (NormBounding(most=1e6), fl.Mean())
    )
    name = "global_model/global_test/loss"
    assert bounded.last(name) == pytest.approx(plain.last(name), abs=1e-5)


def test_a_bound_of_nothing_is_refused():
    with pytest.raises(FedloomError, match=r"most=0\.0: it must be above 0"):
        NormBounding(most=0.0)
