"""Mean absolute error: scikit-learn's, whatever the batches, for one target or several."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

import fedloom as fl
from fedloom.metrics.regression import MAE, R2, RMSE
from support.metric_batches import totals


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 4), st.integers(1, 8), st.integers(0, 10_000))
def test_mae_is_scikit_learns_over_any_batches(samples, width, parts, seed):
    draw = torch.Generator().manual_seed(seed)
    outputs, targets = torch.randn(2, samples, width, generator=draw)
    found = MAE().value(totals(MAE(), outputs, targets, parts, seed))
    assert found == pytest.approx(mean_absolute_error(targets, outputs), rel=1e-6)


def test_mae_targets_may_lack_the_outputs_last_axis():
    outputs, targets = torch.tensor([[1.0], [5.0]]), torch.tensor([2.0, 2.0])
    assert MAE().value(MAE().sums(outputs, targets)) == 2.0


def test_mae_without_samples_is_undefined():
    assert np.isnan(MAE().value(torch.zeros(2)))


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(1, 8), st.integers(0, 10_000))
def test_rmse_is_scikit_learns_over_any_batches(samples, parts, seed):
    outputs, targets = torch.randn(2, samples, generator=torch.Generator().manual_seed(seed))
    found = RMSE().value(totals(RMSE(), outputs[:, None], targets, parts, seed))
    assert found == pytest.approx(root_mean_squared_error(targets, outputs), rel=1e-6)


def test_rmse_without_samples_is_undefined():
    assert np.isnan(RMSE().value(torch.zeros(2)))


@settings(deadline=None)
@given(st.integers(2, 200), st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.0, 1e3, -1e4]))
def test_r2_is_scikit_learns_over_any_batches(samples, parts, seed, shift):
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
def test_r2_is_undefined_without_samples_and_where_targets_do_not_vary(sums):
    assert np.isnan(R2().value(sums))


@settings(deadline=None)
@given(st.integers(2, 200), st.integers(2, 4), st.integers(1, 8), st.integers(0, 10_000))
def test_r2_of_several_numbers_is_the_mean_of_each_as_in_scikit_learn(samples, width, parts, seed):
    outputs, targets = torch.randn(2, samples, width, generator=torch.Generator().manual_seed(seed))
    found = R2().value(totals(R2(), outputs, targets, parts, seed))
    assert found == pytest.approx(r2_score(targets.double(), outputs.double()), rel=1e-6, abs=1e-6)


def test_each_of_several_numbers_has_each_metric_under_its_name():
    draw = np.random.default_rng(0)
    targets = draw.normal(size=(60, 2)) * [1, 100]
    federation = fl.from_arrays(draw.normal(size=(60, 3)), targets, np.arange(60) % 3)
    metrics = fl.task_of(replace(federation, class_names=["length of stay", "cost"])).metrics
    assert [metric.name for metric in metrics] == ["mae", "rmse", "r2", "mae_length_of_stay", "mae_cost",
        "rmse_length_of_stay", "rmse_cost", "r2_length_of_stay", "r2_cost"]  # fmt: skip
    assert [metric.higher_is_better for metric in metrics[2:5]] == [True, False, False]
    outputs, y = torch.randn(60, 2), torch.from_numpy(targets).float()
    for place, (metric, whole) in enumerate(((metrics[3], MAE()), (metrics[4], MAE()))):
        assert metric.value(metric.sums(outputs, y)) == whole.value(whole.sums(outputs[:, place], y[:, place]))
    assert [metric.name for metric in fl.task_of(federation, metrics="r2").metrics] == ["r2", "r2_0", "r2_1"]
