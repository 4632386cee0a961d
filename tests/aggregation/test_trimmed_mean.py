"""The trimmed mean: by hand, between the plain mean and the median, and against scipy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean

import fedloom as fl
from fedloom.aggregation.median import Median
from fedloom.aggregation.trimmed_mean import TrimmedMean
from fedloom.core.errors import FedloomError


def trimmed_mean(rows: torch.Tensor, share: float) -> torch.Tensor:
    return TrimmedMean(share)(rows, torch.full((len(rows),), 1 / len(rows)), None)  # type: ignore[arg-type]


def test_the_extremes_of_each_coordinate_are_left_out():
    rows = torch.tensor([[1.0, 50.0], [2.0, 3.0], [3.0, 2.0], [4.0, 1.0], [-90.0, 4.0]])
    assert trimmed_mean(rows, 0.2).tolist() == [2.0, 3.0]
    assert trimmed_mean(rows, 0.0).tolist() == pytest.approx([-16.0, 12.0])


@given(st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.4, 0.49]), st.integers(0, 1000))
def test_it_is_scipys(clients, share, seed):
    rows = torch.randn(clients, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert np.allclose(trimmed_mean(rows, share).numpy(), trim_mean(rows.numpy(), share + 1e-12, axis=0))


@given(st.integers(1, 9), st.integers(0, 1000))
def test_with_the_largest_share_it_is_the_median(clients, seed):
    rows = torch.randn(clients, 4, generator=torch.Generator().manual_seed(seed))
    share = ((clients - 1) // 2 + 0.5) / clients if clients > 2 else 0.0
    weights = torch.full((clients,), 1 / clients)
    expected = Median()(rows, weights, None)  # type: ignore[arg-type]
    assert torch.allclose(trimmed_mean(rows, min(share, 0.499)), expected, atol=1e-6)


@pytest.mark.parametrize("share", [-0.1, 0.5, 1.0])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(FedloomError, match=r"at least 0|below 0\.5"):
        TrimmedMean(share)


def test_a_share_that_leaves_nobody_out_is_refused():
    task = fl.task("digits", clients=4)
    with pytest.raises(FedloomError, match="needs at least 5 clients in a round, but a round has 4"):
        fl.run(task, "fedavg", rounds=1, aggregation=TrimmedMean(0.2))
    fl.run(task, "fedavg", rounds=1, aggregation=TrimmedMean(0.25))
