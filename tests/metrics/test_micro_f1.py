"""Micro F1: scikit-learn's over labels, and accuracy over classes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from fedloom.metrics.macro_f1 import MacroF1
from fedloom.metrics.micro_f1 import MicroF1
from support.metric_batches import random_outputs, totals


@settings(deadline=None)
@given(st.integers(5, 200), st.integers(1, 5), st.integers(1, 8), st.integers(0, 10_000))
def test_over_labels_it_is_scikit_learns_and_so_is_macro_f1(samples, labels, parts, seed):
    draw = torch.Generator().manual_seed(seed)
    outputs = torch.randn(samples, labels, generator=draw)
    targets = (torch.rand(samples, labels, generator=draw) < 0.5).to(torch.uint8)
    predicted = (outputs > 0).int().numpy()
    true = targets.int().numpy()
    found = MicroF1().value(totals(MicroF1(), outputs, targets, parts, seed))
    assert found == pytest.approx(f1_score(true.flatten(), predicted.flatten(), zero_division=np.nan), nan_ok=True)
    found = MacroF1().value(totals(MacroF1(), outputs, targets, parts, seed))
    each = [f1_score(true[:, one], predicted[:, one]) for one in range(labels) if (predicted + true)[:, one].any()]
    assert found == pytest.approx(np.mean(each) if each else np.nan, nan_ok=True)


def test_over_classes_it_is_accuracy():
    outputs, targets = random_outputs(200, 4, seed=0)
    found = MicroF1().value(MicroF1().sums(outputs, targets).double())
    assert found == pytest.approx(accuracy_score(targets, outputs.argmax(1)))


def test_without_samples_it_is_undefined():
    assert np.isnan(MicroF1().value(torch.zeros(9)))
