"""Distances of rows against scipy."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import fedloom.aggregation.distances as module
from fedloom.aggregation.distances import squared_distances
from support.aggregations import honest_rows


@given(st.integers(1, 8), st.integers(1, 60), st.floats(-1e3, 1e3), st.integers(0, 1000))
def test_they_are_scipys_also_far_from_the_origin(clients, width, away, seed):
    rows = honest_rows(clients, width, seed) + away
    expected = cdist(rows.double().numpy(), rows.double().numpy(), "sqeuclidean")
    assert np.allclose(squared_distances(rows).numpy(), expected, rtol=1e-3, atol=1e-3)


def test_blocks_of_columns_and_single_precision_change_little(monkeypatch):
    rows = honest_rows(5, 1000, 0)
    whole = squared_distances(rows)
    monkeypatch.setattr(module, "EXACT", 0)
    monkeypatch.setattr(module, "COLUMNS", 64)
    monkeypatch.setattr(module, "ROWS", 2)
    assert torch.allclose(squared_distances(rows), whole, rtol=1e-5)
    assert torch.equal(squared_distances(rows), squared_distances(rows).T)
    assert bool((squared_distances(rows).diagonal() == 0).all())
