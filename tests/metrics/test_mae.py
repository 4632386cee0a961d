"""Mean absolute error: scikit-learn's, whatever the batches, for one target or several."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error

from fedloom.metrics.mae import MAE
from support.metric_batches import totals


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 4), st.integers(1, 8), st.integers(0, 10_000))
def test_it_is_scikit_learns_over_any_batches(samples, width, parts, seed):
    draw = torch.Generator().manual_seed(seed)
    outputs, targets = torch.randn(2, samples, width, generator=draw)
    found = MAE().value(totals(MAE(), outputs, targets, parts, seed))
    assert found == pytest.approx(mean_absolute_error(targets, outputs), rel=1e-6)


def test_targets_may_lack_the_outputs_last_axis():
    outputs, targets = torch.tensor([[1.0], [5.0]]), torch.tensor([2.0, 2.0])
    assert MAE().value(MAE().sums(outputs, targets)) == 2.0


def test_without_samples_it_is_undefined():
    assert np.isnan(MAE().value(torch.zeros(2)))
