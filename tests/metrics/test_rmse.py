"""Root mean squared error: scikit-learn's, whatever the batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import root_mean_squared_error

from fedloom.metrics.rmse import RMSE
from support.metric_batches import totals


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 8), st.integers(0, 10_000))
def test_it_is_scikit_learns_over_any_batches(samples, parts, seed):
    outputs, targets = torch.randn(2, samples, generator=torch.Generator().manual_seed(seed))
    found = RMSE().value(totals(RMSE(), outputs[:, None], targets, parts, seed))
    assert found == pytest.approx(root_mean_squared_error(targets, outputs), rel=1e-6)


def test_without_samples_it_is_undefined():
    assert np.isnan(RMSE().value(torch.zeros(2)))
