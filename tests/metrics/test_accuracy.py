"""Accuracy: scikit-learn's, and the objective's own score."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from fedloom.core.objective import CrossEntropy
from fedloom.core.targets import IGNORED
from fedloom.metrics.accuracy import Accuracy
from support.metric_batches import random_outputs, totals


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(2, 6), st.integers(1, 8), st.integers(0, 10_000))
def test_it_is_scikit_learns_over_any_batches(samples, classes, parts, seed):
    outputs, targets = random_outputs(samples, classes, seed)
    found = Accuracy().value(totals(Accuracy(), outputs, targets, parts, seed))
    assert found == pytest.approx(accuracy_score(targets, outputs.argmax(1)), abs=1e-12)


def test_over_sequences_it_is_the_objectives_score():
    outputs, targets = torch.randn(7, 5, 4), torch.randint(4, (7, 5))
    targets[2:, 3:] = IGNORED
    right, counts = CrossEntropy().scores(outputs, targets)
    assert Accuracy().sums(outputs, targets).tolist() == [float(right.sum()), float(counts.sum())]
