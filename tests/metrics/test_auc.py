"""AUC: scikit-learn's of the binned scores to the last digits, and of the scores themselves to a stated tolerance."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.metrics.auc import AUC, log_odds
from support.metric_batches import random_outputs, totals


def at_once(scores, targets) -> float:
    """The mean of scikit-learn's areas over the classes that some samples have and others have not."""
    classes = range(1, 2) if scores.shape[1] == 2 else range(scores.shape[1])
    mixed = [label for label in classes if 0 < int((targets == label).sum()) < len(targets)]
    areas = [roc_auc_score(targets == label, scores[:, label]) for label in mixed]
    return float(np.mean(areas)) if areas else float("nan")


@settings(deadline=None)
@given(
    st.integers(1, 200),
    st.integers(2, 5),
    st.integers(1, 8),
    st.sampled_from([0.01, 1.0, 30.0]),
    st.sampled_from([2, 16, 2048]),
    st.integers(0, 10_000),
)
def test_it_is_scikit_learns_of_the_binned_scores_over_any_batches(samples, classes, parts, scale, bins, seed):
    outputs, targets = random_outputs(samples, classes, seed, scale)
    metric = AUC(bins=bins)
    found = metric.value(totals(metric, outputs, targets, parts, seed))
    assert found == pytest.approx(at_once(metric.bin_of(log_odds(outputs)), targets), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 3.0, 10.0])
def test_a_thousand_samples_are_within_a_thousandth_of_scikit_learns(classes, scale):
    for seed in range(5):
        outputs, targets = random_outputs(1000, classes, seed, scale)
        found = AUC().value(AUC().sums(outputs, targets).double())
        assert found == pytest.approx(at_once(log_odds(outputs), targets), abs=1e-3)


@settings(deadline=None)
@given(
    st.integers(2, 300),
    st.sampled_from([1e-4, 1e-3, 1e-2, 0.1, 1.0, 20.0]),
    st.sampled_from([-30.0, -4.6, 0.0, 2.2]),
    st.sampled_from([4, 64, 2048]),
    st.integers(0, 10_000),
)
def test_it_is_off_by_at_most_half_the_share_of_pairs_that_share_a_bin(samples, scale, shift, bins, seed):
    outputs, targets = random_outputs(samples, 2, seed, scale)
    outputs, metric = outputs.double() + torch.tensor([0.0, shift], dtype=torch.float64), AUC(bins=bins)
    counts = metric.sums(outputs, targets).double()
    positive, negative = counts.view(2, bins)
    pairs = float(positive.sum() * negative.sum())
    exact = at_once(log_odds(outputs), targets)
    if pairs:
        assert abs(metric.value(counts) - exact) <= float((positive * negative).sum()) / pairs / 2 + 1e-12


@pytest.mark.parametrize(("odds", "width"), [(1.0, 0.004), (1 / 9, 0.01), (1 / 99, 0.02)])
def test_a_bin_is_as_wide_as_the_docstring_says(odds, width):
    around = np.log(odds) + torch.linspace(-1, 1, 200_001, dtype=torch.float64)
    edges = around[1:][AUC().bin_of(around).diff() > 0]
    middle = edges[len(edges) // 2 - 1 : len(edges) // 2 + 1]
    assert float(middle.diff()) == pytest.approx(width, rel=0.15)


def test_it_is_scikit_learns_own_mean_of_one_against_the_rest():
    outputs, targets = random_outputs(2000, 4, seed=3)
    expected = roc_auc_score(targets, outputs.double().softmax(1), multi_class="ovr", average="macro")
    assert AUC().value(AUC().sums(outputs, targets).double()) == pytest.approx(expected, abs=1e-3)


def test_very_sure_predictions_are_told_apart():
    outputs = torch.tensor([[0.0, 60.0], [0.0, 80.0], [0.0, 70.0], [0.0, 50.0]])
    assert AUC().value(AUC().sums(outputs, torch.tensor([0, 1, 1, 0]))) == 1.0


def test_one_class_alone_has_no_area():
    outputs, _ = random_outputs(20, 2, seed=0)
    assert np.isnan(AUC().value(AUC().sums(outputs, torch.ones(20, dtype=torch.int64))))


def test_outputs_that_are_not_finite_are_counted_all_the_same():
    outputs = torch.tensor([[float("nan"), 0.0], [float("inf"), 0.0], [1.0, float("-inf")]])
    assert float(AUC().sums(outputs, torch.tensor([0, 1, 0])).sum()) == 3


def test_more_numbers_than_a_client_can_send_are_refused():
    with pytest.raises(FedloomError, match=r"1000000 bins for each of 10 classes.*use fewer bins"):
        fl.task("digits", clients=2, metrics=[{"name": "auc", "bins": 1_000_000}])


def test_bins_are_at_least_two():
    with pytest.raises(FedloomError, match="bins=1 in metric auc: it must be at least 2"):
        fl.task("digits", clients=2, metrics=[{"name": "auc", "bins": 1}])
