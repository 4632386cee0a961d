"""Runs whose clients have different models: what is refused, and how each architecture trains."""

from __future__ import annotations

import pytest

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.runs.architecture_check import architecture_executions


def test_each_architecture_has_an_execution_of_its_own():
    task = fl.task("digits", clients=2, models={"mlp": [0], "cnn-small": [1]})
    assert [one.name for one in architecture_executions(task, resolve({}))] == ["vectorised", "loop"]
    assert [one.name for one in architecture_executions(task, resolve({"execution": "loop"}))] == ["loop", "loop"]
    assert architecture_executions(fl.task("digits", clients=2), resolve({})) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [("sample_privacy", {"noise": 1.0, "clip": 1.0}), ("federated_dropout", {"keep": 0.5})],
)
def test_parts_that_are_made_for_one_model_are_refused(key, value):
    task = fl.task("digits", clients=2, models={"mlp": [0], "logistic": [1]})
    with pytest.raises(FedloomError, match=f"{key} is made for one model"):
        fl.run(task, "local", rounds=1, **{key: value})
