"""Accuracy: scikit-learn's, and the objective's own score."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, recall_score

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.targets import IGNORED
from fedloom.metrics.classification import Accuracy, MacroF1, MicroF1, Recall, RecallOfClass
from support.metric_batches import random_outputs, totals


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(2, 6), st.integers(1, 8), st.integers(0, 10_000))
def test_accuracy_is_scikit_learns_over_any_batches(samples, classes, parts, seed):
    outputs, targets = random_outputs(samples, classes, seed)
    found = Accuracy().value(totals(Accuracy(), outputs, targets, parts, seed))
    assert found == pytest.approx(accuracy_score(targets, outputs.argmax(1)), abs=1e-12)


def test_over_sequences_accuracy_is_the_objectives_score():
    outputs, targets = torch.randn(7, 5, 4), torch.randint(4, (7, 5))
    targets[2:, 3:] = IGNORED
    right, counts = CrossEntropy().scores(outputs, targets)
    assert Accuracy().sums(outputs, targets).tolist() == [float(right.sum()), float(counts.sum())]


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(2, 6), st.integers(1, 8), st.integers(0, 10_000))
def test_macro_f1_is_scikit_learns_over_any_batches(samples, classes, parts, seed):
    outputs, targets = random_outputs(samples, classes, seed)
    found = MacroF1().value(totals(MacroF1(), outputs, targets, parts, seed))
    assert found == pytest.approx(f1_score(targets, outputs.argmax(1), average="macro"), abs=1e-12)


def test_a_mean_of_macro_f1s_is_something_else():
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


def test_macro_f1_without_samples_is_undefined():
    assert np.isnan(MacroF1().value(torch.zeros(9)))


@settings(deadline=None)
@given(st.integers(5, 200), st.integers(1, 5), st.integers(1, 8), st.integers(0, 10_000))
def test_over_labels_micro_and_macro_f1_are_scikit_learns(samples, labels, parts, seed):
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


def test_over_classes_micro_f1_is_accuracy():
    outputs, targets = random_outputs(200, 4, seed=0)
    found = MicroF1().value(MicroF1().sums(outputs, targets).double())
    assert found == pytest.approx(accuracy_score(targets, outputs.argmax(1)))


def test_micro_f1_without_samples_is_undefined():
    assert np.isnan(MicroF1().value(torch.zeros(9)))


@settings(deadline=None)
@given(st.integers(30, 200), st.integers(2, 5), st.integers(1, 8), st.integers(0, 10_000))
def test_recall_is_scikit_learns_over_any_batches(samples, classes, parts, seed):
    outputs, targets = random_outputs(samples, classes, seed)
    added = totals(Recall(), outputs, targets, parts, seed)
    predicted = outputs.argmax(1)
    if len(set(targets.tolist())) == classes:
        assert Recall().value(added) == pytest.approx(balanced_accuracy_score(targets, predicted))
    one = recall_score(targets, predicted, labels=[1], average=None, zero_division=np.nan)[0]
    assert RecallOfClass(1, 1).value(added) == pytest.approx(one, nan_ok=True)


def test_recall_of_labels():
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


def test_a_class_that_has_a_name_is_found_by_its_number_too():
    x = np.random.default_rng(0).normal(size=(60, 2))
    data = fl.from_arrays(x, np.where(x[:, 0] > 0, "ill", "well"), client=np.arange(60) % 2)
    task = fl.task_of(data, metrics=[{"name": "recall", "label": 1}, {"name": "recall", "label": "well"}])
    history = fl.run(task, rounds=1)
    by_number, by_name = (history.last(f"client_model/own_test/recall_{label}/pooled") for label in (1, "well"))
    assert by_number == by_name
    with pytest.raises(FedloomError, match="no class '2'"):
        fl.task_of(data, metrics=[{"name": "recall", "label": 2}])
