"""Predictions know no test label: not those of any method, and not those of any stage behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import fedloom as fl
from fedloom.config.method_spec import method_from
from fedloom.conformance.run_method import run_method
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task
from fedloom.data.changes.withheld_class import with_withheld_class
from fedloom.data.federation import Ragged
from fedloom.prediction.recalibrate import Recalibrate
from fedloom.registry.kinds import METHODS, PREDICTION_STAGES
from fedloom.registry.spec import split_spec
from support.compositions import SETTINGS, task_for

CHANGES = ("shuffle", "one class")
SPECS = {method: f"{method}:{settings}" for method, settings in SETTINGS.items()}
SPECS |= {method: f"{method}:threshold=25" for method in ("fedhybridavglg", "fedhybridavglgdual")}


def with_other_test_labels(task: Task, change: str) -> Task:
    """The same task; all labels of test samples, the clients' and the global ones, are replaced."""
    held = task.federation
    known = torch.cat([held.train.order, held.valid.order, held.communal])
    test = torch.cat([held.test.order, held.global_test]).unique()
    test = test[~torch.isin(test, known)]
    y = held.columns["y"].clone()
    y[test] = y[test].flip(0) if change == "shuffle" else 0
    assert not y.equal(held.columns["y"])
    return replace(task, federation=replace(held, columns={**held.columns, "y": y}))


def with_test_parts(task: Task) -> Task:
    """The task with test samples of their own; a client lacks a class in training that is in its test part."""
    held = task.federation
    if not held.samples_are_independent:
        return task
    train, test = (Ragged.of([held.train[k][half::2] for k in range(held.clients)]) for half in (0, 1))
    server = train[2][:6].sort().values if len(held.server) else held.server
    apart = replace(held, train=train, test=test, global_test=test.order, communal=train[1][:6], server=server)
    return replace(task, federation=with_withheld_class(apart, 2, [0]))


def assert_no_test_label_is_used(method: str, stages: list[PredictionStage]) -> None:
    """Clients predict with the same bytes whatever the test labels are."""
    task, work = task_for(method)
    task = with_test_parts(task)
    name, settings = split_spec(SPECS.get(method, method))
    how = {"prediction": stages, "seed": 1, "execution": "loop"}
    rows = [
        run_method(some, method_from(name, settings), 2, work, **how).prediction_rows()
        for some in (task, *(with_other_test_labels(task, change) for change in CHANGES))
    ]
    assert all(other.equal(rows[0]) for other in rows[1:])


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.slow
def test_no_method_predicts_with_the_help_of_test_labels(method: str) -> None:
    assert_no_test_label_is_used(method, [])


CHAINS: list[tuple[str, list[PredictionStage]]] = [
    ("fedavg", [fl.FedPredict()]),
    ("fedrep", [fl.FedPredict(dynamic=True)]),
    ("fedbabu", [fl.FineTune(epochs=2)]),
    ("scaffold", [fl.LastLocalModel()]),
    ("fedhybridavglgdual", [Recalibrate()]),
    ("fedavg", [fl.FineTune(), Recalibrate()]),
    ("fedsimclr", [PREDICTION_STAGES["linearprobe"]()]),
]


@pytest.mark.parametrize(("method", "stages"), CHAINS)
@pytest.mark.slow
def test_no_stage_predicts_with_the_help_of_test_labels(method: str, stages: list[PredictionStage]) -> None:
    assert_no_test_label_is_used(method, stages)


def test_every_stage_is_among_them() -> None:
    assert {type(stage) for _, stages in CHAINS for stage in stages} == set(PREDICTION_STAGES.values())
