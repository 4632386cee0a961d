"""Recall of a class, of a label, and the mean over classes: scikit-learn's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, recall_score

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.metrics.recall import Recall, RecallOfClass
from support.metric_batches import random_outputs, totals


@settings(deadline=None)
@given(st.integers(30, 200), st.integers(2, 5), st.integers(1, 8), st.integers(0, 10_000))
def test_it_is_scikit_learns_over_any_batches(samples, classes, parts, seed):
    outputs, targets = random_outputs(samples, classes, seed)
    added = totals(Recall(), outputs, targets, parts, seed)
    predicted = outputs.argmax(1)
    if len(set(targets.tolist())) == classes:
        assert Recall().value(added) == pytest.approx(balanced_accuracy_score(targets, predicted))
    one = recall_score(targets, predicted, labels=[1], average=None, zero_division=np.nan)[0]
    assert RecallOfClass(1, 1).value(added) == pytest.approx(one, nan_ok=True)


def test_of_labels():
    outputs, targets = torch.randn(50, 3), torch.randint(2, (50, 3), dtype=torch.uint8)
    found = RecallOfClass("b", 1).value(Recall().sums(outputs, targets).double())
    assert found == pytest.approx(recall_score(targets[:, 1], outputs[:, 1] > 0))


def test_a_class_is_found_by_its_name_and_a_record_is_called_after_it():
    x = np.random.default_rng(0).normal(size=(60, 2))
    data = fl.from_arrays(x, np.where(x[:, 0] > 0, "septic shock", "well"), client=np.arange(60) % 2)
    task = fl.task_of(data, metrics=[{"name": "recall", "label": "septic shock"}, {"name": "recall", "label": "well"}])
    history = fl.run(task, rounds=1)
    assert 0 <= history.last("client_model/own_test/recall_septic_shock/pooled") <= 1
    assert history.score.name == "recall_septic_shock"
    with pytest.raises(FedloomError, match="no class 'sepsis': the classes are septic shock, well"):
        fl.task_of(data, metrics=[{"name": "recall", "label": "sepsis"}])
