"""Metrics by name: what a config may say, and what it may not."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.config.resolve import resolve
from fedloom.core.errors import FedloomError
from fedloom.core.objective import SquaredError
from fedloom.metrics.make_metrics import make_metrics
from fedloom.registry.kinds import METRICS


def regression(**more):
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    federation = fl.from_arrays(x.numpy(), (x.sum(1) > 0).long().numpy(), client=[n % 3 for n in range(60)])
    return fl.task_of(federation, nn.Linear(3, 1), objective=SquaredError(), **more)


def test_names_sections_classes_and_objects_are_all_metrics():
    found = make_metrics(["macro-F1", {"name": "auc", "bins": 64}, fl.Accuracy, fl.MAE()])
    assert found == [fl.MacroF1(), fl.AUC(bins=64), fl.Accuracy(), fl.MAE()]
    assert make_metrics("macro_f1, auc") == [fl.MacroF1(), fl.AUC()]
    assert resolve({"task": {"metrics": {"name": "auc"}}}).task.metrics == [{"name": "auc", "bins": 2048}]


def test_a_metric_is_called_as_it_is_registered():
    assert {name: kind().name for name, kind in METRICS.items()} == {name: name for name in METRICS}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (["macro_f2"], "Did you mean 'macro_f1'"),
        (["mae"], "metric mae needs measured values, but the targets of task digits are classes"),
        (["auc", {"name": "auc", "bins": 8}], "two metrics called auc"),
        ([{"name": "accuracy", "bins": 8}], "unknown key"),
        ([3], "is not a metric"),
        (["nowhere.py:Mine"], "there is no file"),
    ],
)
def test_what_is_wrong_is_said(metrics, said):
    with pytest.raises(FedloomError, match=said):
        fl.task("digits", clients=2, metrics=metrics)


@pytest.mark.parametrize("name", ["auc", "macro_f1", "accuracy"])
def test_a_metric_of_classes_is_refused_where_values_are_measured(name):
    with pytest.raises(FedloomError, match=f"metric {name} needs classes.*measured values: use mae"):
        regression(metrics=[name])


def test_a_name_that_records_use_already_is_refused():
    @dataclass(frozen=True)
    class Loss(fl.Metric):
        pass

    with pytest.raises(FedloomError, match="cannot be called 'loss'"):
        make_metrics([Loss()])


def test_mae_of_a_regression_is_what_its_predictions_say():
    task = regression(metrics=["mae"])
    history = fl.run(task, rounds=2, local={"lr": 0.01})
    model = history.model(task)
    positions = task.federation.test.order
    away = (model(task.inputs(positions)).flatten() - task.targets(positions)).abs().mean().detach()
    assert history.last("client_model/own_test/mae/pooled") == pytest.approx(float(away), rel=1e-5)
    worst, mean = (history.last(f"client_model/own_test/mae/{over}") for over in ("worst_decile", "mean"))
    assert worst > mean
