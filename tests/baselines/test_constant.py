"""Constant answers: hand-computed, and those of scikit-learn's dummy estimators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import log_loss

import fedloom as fl
from fedloom.baselines.constant import FrequentLabels, MajorityClass, TypicalNumber
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task

RANDOM = np.random.default_rng(3)
WHO = np.repeat(np.arange(4), 50)
X = RANDOM.normal(size=(200, 3)).astype("float32")


def task_with(y: np.ndarray, **settings: object) -> Task:
    return fl.task_of(fl.from_arrays(X, y, WHO, **settings))


def pool(task: Task) -> torch.Tensor:
    return task.federation.train.order


def test_the_majority_class_is_scikit_learns_prior_up_to_one_sample_per_class() -> None:
    task = task_with(RANDOM.choice(3, 200, p=[0.2, 0.7, 0.1]))
    fitted, targets = MajorityClass().fit(task, pool(task)), task.targets(pool(task)).numpy()
    dummy = DummyClassifier(strategy="prior").fit(np.zeros((len(targets), 1)), targets)
    outputs = fitted.outputs(pool(task))
    assert outputs.argmax(1).tolist() == dummy.predict(np.zeros((len(targets), 1))).tolist()
    assert log_loss(targets, outputs.exp().numpy()) == pytest.approx(
        log_loss(targets, dummy.predict_proba(np.zeros((len(targets), 1)))), abs=1e-3
    )
    assert fitted.words == "always answering '1'"


def test_ties_go_to_the_first_class_and_samples_without_a_label_do_not_count() -> None:
    task = task_with(RANDOM.choice(3, 200))
    y = task.federation.columns["y"]
    y[:6] = torch.tensor([2, 2, 1, 1, IGNORED, 0])
    fitted = MajorityClass().fit(task, torch.arange(6))
    assert fitted.outputs(torch.arange(2)).argmax(1).tolist() == [1, 1]
    assert torch.allclose(fitted.outputs(torch.arange(1)).exp(), torch.tensor([[2, 3, 3]]) / 8)


def test_a_client_without_samples_answers_what_all_do_together() -> None:
    task, nobody = task_with(RANDOM.choice(3, 200)), torch.zeros(0, dtype=torch.int64)
    for baseline in (MajorityClass(), TypicalNumber(absolute=True)):
        pooled = MajorityClass().fit(task, pool(task))
        assert baseline.fit(task, nobody, pooled) is pooled


@pytest.mark.parametrize(("absolute", "strategy"), [(True, "median"), (False, "mean")])
def test_the_typical_number_is_scikit_learns_in_the_units_of_the_targets(absolute: bool, strategy: str) -> None:
    task = task_with(RANDOM.exponential(3000.0, 200).astype("float32"))
    targets = task.targets(pool(task)).numpy()
    dummy = DummyRegressor(strategy=strategy).fit(np.zeros((len(targets), 1)), targets)
    fitted = TypicalNumber(absolute).fit(task, pool(task))
    answer = task.predictions(fitted.outputs(pool(task)[:1])).item()
    assert answer == pytest.approx(float(dummy.predict([[0.0]])[0]), rel=1e-5)
    assert strategy in fitted.words


def test_labels_are_answered_by_their_odds_or_all_of_them() -> None:
    y = (RANDOM.random((200, 3)) < [0.8, 0.4, 0.1]).astype("uint8")
    task = task_with(y, kind="labels")
    frequent = FrequentLabels(every=False).fit(task, pool(task))
    assert (frequent.outputs(torch.arange(2)) > 0).tolist() == [[True, False, False]] * 2
    assert (FrequentLabels(every=True).fit(task, pool(task)).outputs(torch.arange(2)) > 0).all()
