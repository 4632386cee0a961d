"""Linear probe: scikit-learn's logistic regression, features that stay, and labels that are missing."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from sklearn.linear_model import LogisticRegression

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task
from fedloom.prediction.linear_probe import fit_head
from support.checkpoints import WORK
from support.synthetic import Branching, cohort, federation, mlp_features, small_task


def blobs(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(90) % 3
    return torch.randn(90, 4, generator=generator) * 2 + 3 + torch.eye(4)[y], y


@pytest.mark.parametrize("l2", [1.0, 10.0])
def test_a_fitted_head_is_scikit_learns_logistic_regression(l2):
    z, y = blobs()
    oracle = LogisticRegression(C=1 / l2, max_iter=10_000, tol=1e-10).fit(z.double().numpy(), y.numpy())
    found = fit_head(z, y, 3, l2)
    assert torch.allclose(found[:12].view(3, 4), torch.tensor(oracle.coef_).float(), atol=1e-3)
    offsets = found[12:] - torch.tensor(oracle.intercept_).float()
    assert float(offsets.max() - offsets.min()) < 1e-3  # a shift of all biases changes no probability


def test_a_head_without_biases_is_fitted_without_them():
    """On features far from 0, the weights that go with biases would be of no use alone."""
    z, y = blobs()
    z = z + 3
    found = fit_head(z, y, 3, 1.0, biased=False).view(3, -1)
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-8, max_iter=5000).fit(z.numpy(), y.numpy())
    assert torch.allclose(found, torch.from_numpy(theirs.coef_).float(), atol=1e-3)
    made = small_task()
    model = deepcopy(made.model)
    model[-1].bias = None
    task = Task("t", made.federation, model)
    rows = fl.LinearProbe().weights(task.initial_row(), Message(), cohort(task, "loop", LocalWork()))
    own = task.federation.train[0]
    features = mlp_features(task, task.initial_row(), task.inputs(own))
    expected = fit_head(features, task.targets(own), 5, 1.0, biased=False)
    assert torch.allclose(task.layout.take(rows[0], "head"), expected, atol=1e-4)


def test_only_the_head_changes_and_each_client_has_its_own():
    task = small_task()
    some = cohort(task, "loop", LocalWork())
    rows = fl.LinearProbe().weights(some.spread(task.initial_row()), Message(), some)
    body = task.layout.columns("body")
    assert torch.equal(rows[:, body], some.spread(task.initial_row())[:, body])
    for client in range(4):
        own = task.federation.train[client]
        z = mlp_features(task, task.initial_row(), task.inputs(own))
        assert torch.allclose(task.layout.take(rows[client], "head"), fit_head(z, task.targets(own), 5, 1.0), atol=1e-4)


def test_samples_without_a_label_do_not_count_and_a_client_without_any_keeps_its_head():
    task = small_task()
    y = task.federation.columns["y"].clone()
    first, second = task.federation.train[0], task.federation.train[1]
    y[first[10:]], y[second] = IGNORED, IGNORED
    scarce = replace(task, federation=replace(task.federation, columns={**task.federation.columns, "y": y}))
    some = cohort(scarce, "loop", LocalWork())
    heads = task.layout.take(fl.LinearProbe().weights(some.spread(task.initial_row()), Message(), some), "head")
    z = mlp_features(task, task.initial_row(), task.inputs(first[:10]))
    assert torch.allclose(heads[0], fit_head(z, y[first[:10]], 5, 1.0), atol=1e-4)
    assert torch.equal(heads[1], task.layout.take(task.initial_row(), "head"))


def test_on_the_communal_set_clients_of_one_encoder_have_one_head():
    task = small_task()
    task = replace(task, federation=replace(task.federation, communal=torch.arange(0, 100, 2)))
    some = cohort(task, "loop", LocalWork())
    heads = task.layout.take(fl.LinearProbe(on="communal").weights(task.initial_row(), Message(), some), "head")
    z = mlp_features(task, task.initial_row(), task.inputs(task.federation.communal))
    assert torch.allclose(heads[0], fit_head(z, task.targets(task.federation.communal), 5, 1.0), atol=1e-4)
    assert all(torch.equal(heads[0], head) for head in heads)


def test_training_is_the_same_with_and_without_a_probe():
    plain, probed = (
        fl.run(small_task(), "fedavg", rounds=2, local=WORK, prediction=stages, seed=3)
        for stages in ([], ["linearprobe"])
    )
    assert torch.equal(plain.row, probed.row)
    accuracy = "client_model/own_test/accuracy/mean"
    assert probed.last(accuracy) > plain.last(accuracy)  # each client's test part is its training part


def test_impossible_settings_and_models_are_refused_with_a_sentence():
    with pytest.raises(FedloomError, match="l2=0: it must be above 0"):
        fl.LinearProbe(l2=0)
    with pytest.raises(FedloomError, match="on=communal fits heads on a labelled communal set, but the task has none"):
        fl.run(small_task(), "fedavg", prediction=[fl.LinearProbe(on="communal")], rounds=1)
    model = Branching()
    model.parts = {"head": ["left", "head"]}
    with pytest.raises(
        FedloomError, match=r"fits a head that is one linear layer .* has the tensors \(8, 20\), \(8,\)"
    ):
        fl.run(Task("t", federation([9]), model), "fedavg", prediction=["linearprobe"], rounds=1)


def test_every_architecture_is_checked(tmp_path):
    deep = tmp_path / "deep.py"
    deep.write_text(
        "from torch import nn\n"
        "class Deep(nn.Sequential):\n"
        "    parts = {'head': ['1', '3']}\n"
        "    def __init__(self, inputs, classes):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, classes))\n"
    )
    task = fl.task("digits", clients=2, communal=0.2, models={"mlp:hidden=[8]": [0], f"{deep}:Deep": [1]})
    with pytest.raises(FedloomError, match="that of Deep has the tensors"):
        fl.run(task, "fld+linearprobe", rounds=1)
