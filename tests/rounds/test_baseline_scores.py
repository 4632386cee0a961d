"""Baselines are scored like models, on the same samples, and fitted on nothing but training samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.core.task import Task
from fedloom.registry.kinds import METHODS
from support.compositions import spec_of, task_for


def digits(**settings: Any) -> Task:
    return fl.task("digits", clients=6, alpha=0.3, **settings)


def scores(task: Task, method: Any = "fedavg", **settings: Any) -> dict[str, dict[str, Any]]:
    history = fl.run(task, method, rounds=1, **settings)
    return {one["name"]: one for one in history.baselines}


def test_the_majority_is_right_as_often_as_its_class_occurs() -> None:
    task = digits()
    found = scores(task)
    targets, federation = task.federation.columns["y"], task.federation
    most = int(targets[federation.train.order].bincount().argmax())
    shares = [float((targets[federation.test[client]] == most).double().mean()) for client in range(6)]
    metrics = found["majority"]["metrics"]
    assert metrics["client_model/own_test/accuracy/mean"] == pytest.approx(np.mean(shares))
    whole = (targets[federation.global_test] == most).double().mean()
    assert metrics["global_model/global_test/accuracy"] == pytest.approx(float(whole))
    for client, row in enumerate(found["own majority"]["clients"]):
        own = int(targets[federation.train[client]].bincount().argmax())
        assert row["accuracy"] == pytest.approx(float((targets[federation.test[client]] == own).double().mean()))


def test_nothing_of_a_test_sample_enters_an_answer() -> None:
    """With other targets of all test samples, the answers are the same."""
    task = digits()
    before = scores(task)
    y = task.federation.columns["y"].clone()
    held_out = torch.cat([task.federation.test.order, task.federation.global_test])
    y[held_out] = (y[held_out] + 1) % 10
    other = replace(task, federation=replace(task.federation, columns={**task.federation.columns, "y": y}))
    assert scores(other)["majority"]["words"] == before["majority"]["words"]
    assert scores(other)["majority"]["metrics"] != before["majority"]["metrics"]


def test_clients_that_are_held_out_of_training_are_not_fitted_on_and_answer_what_the_others_do() -> None:
    task = digits()
    found = scores(task, new_clients=2)
    new = [row["client"] for row in found["majority"]["clients"] if row["group"] == "new"]
    assert len(new) == 2
    pooled, own = ({row["client"]: row for row in found[name]["clients"]} for name in ("majority", "own majority"))
    assert all(pooled[client]["accuracy"] == own[client]["accuracy"] for client in new)
    y, train = task.federation.columns["y"], task.federation.train
    there = torch.cat([train[client] for client in range(6) if client not in new])
    assert found["majority"]["words"] == f"always answering '{int(y[there].bincount().argmax())}'"


def test_validation_parts_are_scored_too() -> None:
    metrics = scores(digits(valid_share=0.2))["majority"]["metrics"]
    assert "client_model/own_validation/accuracy/mean" in metrics


def test_numbers_are_scored_in_their_units() -> None:
    random = np.random.default_rng(0)
    y = random.exponential(3000.0, 300).astype("float32")
    data = fl.from_arrays(random.normal(size=(300, 2)).astype("float32"), y, np.repeat(np.arange(3), 100))
    task = fl.task_of(data)
    found = scores(task)["median"]
    median = float(torch.tensor(y)[task.federation.train.order].double().quantile(0.5))
    errors = [float((torch.tensor(y)[task.federation.test[c]] - median).abs().mean()) for c in range(3)]
    assert found["metrics"]["client_model/own_test/mae/mean"] == pytest.approx(np.mean(errors), rel=1e-5)


FAMILIES = ("fedavg", "fedrep", "fedproto", "fedsimclr", "fedharm", "feddf", "fedrcil", "centralised", "local")


@pytest.mark.parametrize(
    "method", [name if name in FAMILIES else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_every_method_has_the_baseline_of_its_task(method: str) -> None:
    task, settings = task_for(method)
    history = fl.run(task, spec_of(method), rounds=1, local=settings)
    assert {one["name"] for one in history.baselines} == {"majority", "own majority"}
    assert all(0 <= one["metrics"][history.score.clients] <= 1 for one in history.baselines)


def test_workers_and_resuming_change_nothing_of_the_file(tmp_path: Path) -> None:
    fl.run(digits(), "fedavg", rounds=2, out=tmp_path / "two workers", workers=2)
    fl.run(digits(), "fedavg", rounds=1, out=tmp_path / "resumed")
    again = fl.resume(tmp_path / "resumed", rounds=2)
    one, two = ((tmp_path / name / "baselines.json").read_bytes() for name in ("two workers", "resumed"))
    assert one == two
    assert again.baselines == fl.History.load(tmp_path / "two workers").baselines


def test_the_recall_of_a_withheld_class_is_that_of_the_clients_that_never_trained_on_it() -> None:
    """Whoever answers by its own samples never answers it; all clients together have it most often."""
    y = np.array([3] * 90 + [0, 1] * 15)
    data = fl.from_arrays(np.zeros((120, 2)), y, np.arange(120) % 4, classes=4)
    found = scores(fl.task_of(fl.with_withheld_class(data, 3, 2)))
    name = "client_model/own_test/withheld_recall/mean"
    assert {one: found[one]["metrics"][name] for one in found} == {"majority": 1.0, "own majority": 0.0}
