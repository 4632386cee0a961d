"""The coefficient of determination: scikit-learn's, whatever the batches, and undefined where nothing varies."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score

from fedloom.metrics.r2 import R2
from support.metric_batches import totals


@settings(deadline=None)
@given(st.integers(2, 200), st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.0, 1e3, -1e4]))
def test_it_is_scikit_learns_over_any_batches(samples, parts, seed, shift):
    outputs, targets = torch.randn(2, samples, generator=torch.Generator().manual_seed(seed)) + shift
    true = targets.double()
    assume((true - true.mean()).square().sum() > 1e-8 * true.square().sum())  # else sums of squares cannot tell
    found = R2().value(totals(R2(), outputs[:, None], targets, parts, seed))
    assert found == pytest.approx(r2_score(targets.double(), outputs.double()), rel=1e-6, abs=1e-6)


def test_a_mean_of_clients_values_is_something_else():
    outputs, targets = torch.randn(2, 200)
    targets[100:] += 50
    outputs[100:] += 50
    both = R2().value(R2().sums(outputs, targets))
    means = [R2().value(R2().sums(outputs[part], targets[part])) for part in (slice(0, 100), slice(100, 200))]
    assert both > 0.9
    assert np.mean(means) < 0


@pytest.mark.parametrize("sums", [torch.zeros(4), R2().sums(torch.randn(3), torch.full((3,), 0.1))])
def test_it_is_undefined_without_samples_and_where_targets_do_not_vary(sums):
    assert np.isnan(R2().value(sums))
