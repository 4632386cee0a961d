"""Macro F1: scikit-learn's, whatever the batches and the clients."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from fedloom.core.targets import IGNORED
from fedloom.metrics.macro_f1 import MacroF1
from support.metric_batches import random_outputs, totals


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(2, 6), st.integers(1, 8), st.integers(0, 10_000))
def test_it_is_scikit_learns_over_any_batches(samples, classes, parts, seed):
    outputs, targets = random_outputs(samples, classes, seed)
    found = MacroF1().value(totals(MacroF1(), outputs, targets, parts, seed))
    assert found == pytest.approx(f1_score(targets, outputs.argmax(1), average="macro"), abs=1e-12)


def test_a_mean_of_means_is_something_else():
    outputs, targets = random_outputs(300, 5, seed=1)
    metric = MacroF1()
    means = [
        metric.value(metric.sums(o, t).double()) for o, t in zip(outputs.split(10), targets.split(10), strict=True)
    ]
    assert abs(np.mean(means) - f1_score(targets, outputs.argmax(1), average="macro")) > 0.05


def test_positions_that_do_not_count_are_left_out():
    outputs, targets = torch.randn(4, 6, 3), torch.randint(3, (4, 6))
    targets[:, 4:] = IGNORED
    expected = f1_score(targets[:, :4].flatten(), outputs[:, :4].argmax(-1).flatten(), average="macro")
    assert MacroF1().value(MacroF1().sums(outputs, targets).double()) == pytest.approx(expected)


def test_without_samples_it_is_undefined():
    assert np.isnan(MacroF1().value(torch.zeros(9)))
