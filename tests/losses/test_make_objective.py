"""Losses by name: which targets have which, what a config may say, and that a loss trains as it says."""

import numpy as np
import pytest
import torch

import fedloom as fl
from fedloom.config.resolve import resolve, task_from_config
from fedloom.core.errors import FedloomError
from fedloom.core.objective import Standardised
from fedloom.losses.make_objective import complete_loss, make_objective
from fedloom.registry.kinds import LOSSES

OWN_FILE = """
import torch.nn.functional as F

def my_loss(outputs, targets):
    return F.cross_entropy(outputs, targets, reduction="none")

FIVE = 5
"""


def federation(kind="classes"):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(90, 3))
    y = {
        "classes": np.where(x[:, 0] > 0, "yes", "no"),
        "number": 100 + 5 * x[:, 0],
        "labels": (x > 0).astype(np.uint8),
        "tokens": np.arange(90)[:, None] + np.arange(2),
    }[kind]
    return fl.from_arrays(x, y % 7 if kind == "tokens" else y, client=np.arange(90) % 3)


def test_each_kind_of_target_has_its_usual_loss():
    usual = {kind: make_objective(None, federation(kind)) for kind in ("classes", "number", "labels", "tokens")}
    assert usual == {
        "classes": fl.CrossEntropy(),
        "number": fl.Huber(),
        "labels": fl.BCE(),
        "tokens": fl.CrossEntropy(),
    }


@pytest.mark.parametrize(
    ("loss", "kind", "said"),
    [
        ("mse", "classes", "loss mse is not for one class per sample.*use cross_entropy, focal, or a function"),
        ("bce", "number", "loss bce is not for a number per sample.*use mse, huber"),
        ("cross_entropy", "labels", "is not for any number of labels per sample.*use bce"),
        ("croissant", "classes", "Did you mean 'cross_entropy'"),
        ({"name": "focal", "gama": 2}, "classes", "unknown key"),
        ({"name": "cross_entropy", "smoothing": 1}, "classes", "smoothing=1"),
        ({"name": "cross_entropy", "class_weights": [1, 2, 3]}, "classes", "3 weights, but there are 2 classes"),
        ({"name": "cross_entropy", "class_weights": {"Yes": 2}}, "classes", "Did you mean 'yes'"),
        (
            {"name": "cross_entropy", "class_weights": [1, -2]},
            "classes",
            "each entry must be at least 0",
        ),
        ("nowhere.py:mine", "classes", "there is no file"),
        (3, "classes", "is not a loss"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(loss, kind, said):
    with pytest.raises(FedloomError, match=said):
        make_objective(loss, federation(kind))


def test_weights_by_name_are_weights_by_place():
    by_name = make_objective({"name": "cross_entropy", "class_weights": {"yes": 4}}, federation())
    assert by_name == fl.CrossEntropy(class_weights=(1.0, 4.0))


def test_weights_change_which_mistakes_are_made():
    x = np.random.default_rng(1).normal(size=(600, 2))
    y = (x[:, 0] + np.random.default_rng(2).normal(size=600) > 1.5).astype(np.int64)  # one in seven
    data = fl.from_arrays(x, y, client=np.arange(600) % 3)
    recall = {}
    for weight in (1.0, 8.0):
        loss = {"name": "cross_entropy", "class_weights": [1.0, weight]}
        task = fl.task_of(data, "logistic", loss=loss, metrics=[{"name": "recall", "label": 1}, "accuracy"])
        recall[weight] = fl.run(task, rounds=10, eval_every=10).last("client_model/own_test/recall_1/pooled")
    assert recall[8.0] > recall[1.0] + 0.2


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_listed_in_a_config_with_its_settings(name):
    section = complete_loss(name)
    assert section["name"] == name
    assert complete_loss(section) == section


def test_a_function_in_a_file_is_named_by_a_config(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN_FILE)
    monkeypatch.chdir(tmp_path)
    config = resolve({"task": {"name": "digits", "clients": 3, "loss": "mine.py:my_loss"}, "rounds": 1})
    assert config.task.loss == {"name": f"{tmp_path / 'mine.py'}:my_loss"}
    assert "my_loss" in str(task_from_config(config).objective)
    with pytest.raises(FedloomError, match="is a function, which has no setting gamma"):
        complete_loss({"name": "mine.py:my_loss", "gamma": 2})
    with pytest.raises(FedloomError, match="has no class or function your_loss"):
        complete_loss("mine.py:your_loss")
    with pytest.raises(FedloomError, match="no class or function FIVE"):
        complete_loss("mine.py:FIVE")


def test_an_own_function_trains_as_the_loss_it_repeats(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN_FILE)
    monkeypatch.chdir(tmp_path)
    rows = [fl.run(fl.task("digits", clients=3, loss=loss), rounds=2).row for loss in ("mine.py:my_loss", None)]
    assert torch.equal(*rows)


def test_two_losses_at_once_are_refused():
    with pytest.raises(FedloomError, match="objective and loss both"):
        fl.task_of(federation(), objective=fl.CrossEntropy(), loss="focal")


def test_a_number_is_learnt_standardised_and_reported_in_its_units():
    data = federation("number")
    task = fl.task_of(data, "logistic")
    y = data.columns["y"][data.train.order].double()
    assert isinstance(task.objective, Standardised)
    assert task.objective.mean == pytest.approx(float(y.mean()))
    assert task.objective.std == pytest.approx(float(y.std(correction=0)))
    history = fl.run(task, rounds=30, eval_every=30)
    positions = data.test.order
    predicted = task.predictions(history.model(task)(task.inputs(positions))).flatten().detach()
    away = (predicted - task.targets(positions)).abs().mean()
    assert history.last("client_model/own_test/mae/pooled") == pytest.approx(float(away), rel=1e-5)
    assert away < 1.0


def test_the_same_lengths_in_metres_and_millimetres_are_learnt_alike():
    x = np.random.default_rng(0).normal(size=(90, 3))
    found = []
    for scale in (1.0, 1024.0):  # a power of two is exact
        task = fl.task_of(fl.from_arrays(x, (x[:, 0] + 3) * scale, client=np.arange(90) % 3))
        history = fl.run(task, rounds=2)
        found.append((history.row, history.last("client_model/own_test/mae/mean") / scale))
    assert found[0][0].allclose(found[1][0], atol=1e-5)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-4)
