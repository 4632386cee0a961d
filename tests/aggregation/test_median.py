"""The coordinate-wise median: by hand, against numpy, and its breakdown point."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedloom as fl
from fedloom.aggregation.median import Median


def median(rows: torch.Tensor) -> torch.Tensor:
    return Median()(rows, torch.full((len(rows),), 1 / len(rows)), None)  # type: ignore[arg-type]


def test_odd_and_even_numbers_of_clients_by_hand():
    rows = torch.tensor([[1.0, 9.0], [5.0, 2.0], [3.0, 4.0]])
    assert median(rows).tolist() == [3.0, 4.0]
    assert median(rows[:2]).tolist() == [3.0, 5.5]
    assert median(rows[:1]).tolist() == [1.0, 9.0]


@given(st.integers(1, 9), st.integers(1, 7), st.integers(0, 1000))
def test_it_is_numpys(clients, width, seed):
    rows = torch.randn(clients, width, generator=torch.Generator().manual_seed(seed))
    assert np.allclose(median(rows).numpy(), np.median(rows.numpy(), axis=0), atol=1e-6)


@given(st.integers(1, 4), st.floats(-1e6, 1e6), st.integers(0, 1000))
def test_a_hostile_minority_cannot_leave_the_range_of_the_honest(hostile, value, seed):
    honest = torch.randn(hostile + 1, 5, generator=torch.Generator().manual_seed(seed))
    found = median(torch.cat([honest, torch.full((hostile, 5), value)]))
    assert bool((found >= honest.amin(0)).all())
    assert bool((found <= honest.amax(0)).all())


def test_two_clients_in_a_round_are_too_few():
    task = fl.task("digits", clients=5)
    with pytest.raises(fl.FedloomError, match="median needs at least 3 clients in a round, but a round has 2"):
        fl.run(task, "fedavg", rounds=1, aggregation="median", selection={"number": 2})
