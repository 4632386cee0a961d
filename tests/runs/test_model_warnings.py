"""What hardly anybody means is said once, in one sentence."""

from __future__ import annotations

import logging

import pytest
from torch import nn

import fedloom as fl
from fedloom.core.task import Task


def digits(*layers: nn.Module) -> Task:
    federation = fl.task("digits", clients=4).federation
    return fl.task_of(federation, nn.Sequential(nn.Flatten(), nn.Linear(64, 10), *layers))


def sentences(caplog: pytest.LogCaptureFixture, task: Task, method: str = "fedavg", **settings: object) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "fedloom"):
        fl.run(task, method, rounds=1, eval_every=0, **settings)
    said = [record.getMessage() for record in caplog.records if record.funcName == "warn_once"]
    return [one for one in said if not one.startswith("the model is ")]  # how it is trained


def test_a_softmax_before_cross_entropy_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = sentences(caplog, digits(nn.Softmax(dim=1)))
    assert "probabilities already" in said
    assert "remove the softmax" in said
    assert sentences(caplog, digits(nn.Softmax(dim=1))) == []
    assert sentences(caplog, digits()) == []


def test_training_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    (said,) = sentences(caplog, digits(), local={"epochs": 0})
    assert said.startswith("local.epochs = 0: clients train nothing")
    assert sentences(caplog, digits(), local={"steps": 1}) == []


def test_averaged_statistics_are_said_where_they_are_averaged(caplog: pytest.LogCaptureFixture) -> None:
    assert sentences(caplog, digits(nn.BatchNorm1d(10)), "local") == []
    (said,) = sentences(caplog, digits(nn.BatchNorm1d(10)))
    assert "BatchNorm1d '2'" in said
    assert "averaged over clients" in said
    assert sentences(caplog, digits(nn.LayerNorm(10))) == []


@pytest.mark.parametrize("schedule", ["cosine", "step", "exponential"])
def test_a_schedule_that_changes_nothing_is_said(caplog: pytest.LogCaptureFixture, schedule: str) -> None:
    (said,) = sentences(caplog, digits(), local={"schedule": schedule})
    assert said.startswith(f'local.schedule = "{schedule}" changes nothing, since lr_decay is 1: set local.lr_decay')
    assert sentences(caplog, digits(), local={"schedule": schedule, "lr_decay": 0.5}) == []
    assert sentences(caplog, digits(), local={"schedule": "constant"}) == []
