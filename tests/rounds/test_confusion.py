"""The confusion of a run is that of its clients' models on their own test samples, whoever computes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.metrics import confusion_matrix

import fedloom as fl
from fedloom.rounds import confusion
from fedloom.rounds.confusion import count_confusion


def task() -> Any:
    return fl.task("digits", clients=4, alpha=0.5, seed=0)


def test_with_one_shared_model_it_is_scikit_learns_over_all_clients_test_samples(tmp_path: Path) -> None:
    digits = task()
    history = fl.run(digits, fl.FedAvg(), rounds=2, out=tmp_path / "run")
    positions = torch.cat([digits.federation.test[client] for client in range(4)])
    with torch.no_grad():
        predicted = history.model(digits)(digits.inputs(positions)).argmax(1)
    expected = confusion_matrix(digits.targets(positions), predicted, labels=range(10)).tolist()
    assert history.confusion == expected
    assert json.loads((tmp_path / "run/confusion.json").read_text()) == expected
    assert fl.History.load(tmp_path / "run").confusion == expected


@pytest.mark.slow
def test_with_models_of_their_own_its_diagonal_is_the_clients_accuracy_and_workers_change_nothing() -> None:
    digits = task()
    alone = fl.run(digits, fl.Local(), rounds=2)
    counts = torch.tensor(alone.confusion)
    right = sum(row["accuracy"] * row["test"] for row in alone.clients)
    assert int(counts.sum()) == sum(row["test"] for row in alone.clients)
    assert int(counts.diagonal().sum()) == pytest.approx(right, abs=1e-3)
    assert fl.run(digits, fl.Local(), rounds=2, workers=2).confusion == alone.confusion


def test_it_is_not_counted_without_evaluation_with_many_classes_or_in_a_deployment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digits = task()
    assert fl.run(digits, fl.FedAvg(), rounds=1, eval_every=0).confusion == []
    monkeypatch.setattr(confusion, "MOST_CLASSES", 9)
    assert fl.run(digits, fl.FedAvg(), rounds=1).confusion == []

    class Deployed:
        """An engine that simulates nothing."""

    class Run:
        task = digits

    class State:
        round = 1

    monkeypatch.setattr(confusion, "MOST_CLASSES", 100)
    assert count_confusion(Run(), Deployed(), State()) == []  # type: ignore[arg-type]
