"""Recalibration: which clients mix in the shared model, by how much, and which methods have one to mix in."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import fedloom as fl
from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.changes.withheld_class import with_withheld_class
from fedloom.data.federation import Federation, Ragged
from fedloom.prediction.recalibrate import Recalibrate
from fedloom.training.local_trainer import LocalTrainer
from support.quadratic import quadratic
from support.synthetic import federation, mlp

WORK = {"epochs": 1, "batch_size": 16, "lr": 0.1}


@dataclass(frozen=True)
class OwnBody(fl.FedAvg):
    """Everybody sends a whole model and predicts with its own body under the shared head."""

    def client_update(self, cohort: fl.Cohort, message: fl.Message) -> fl.Reply:
        rows = cohort.train(self.weights_for(message, cohort))
        cohort.keep("body", cohort.task.layout.take(rows, "body"))
        return fl.Reply({"row": rows})

    def weights_for(self, message: fl.Message, cohort: fl.Cohort) -> Tensor:
        layout, rows = cohort.task.layout, cohort.spread(message["row"])
        return layout.put(rows, "body", cohort.kept_rows("body", layout.take(rows, "body")))


def parts(train: list[list[int]], valid: list[list[int]], test: list[list[int]]) -> Task:
    """A task in which clients have samples of these classes in their parts."""
    labels, lists = [], []
    for part in (train, valid, test):
        lists.append([])
        for own in part:
            lists[-1].append(list(range(len(labels), len(labels) + len(own))))
            labels += own
    x = torch.randn(len(labels), 20, generator=torch.Generator().manual_seed(0))
    held = Federation({"x": x, "y": torch.tensor(labels)}, *(Ragged.of(lists[i]) for i in (0, 2, 1)), 5)
    return Task("parts", held, mlp())


def predict(task: Task, rows: Tensor, shared: Tensor, mix: float) -> Tensor:
    ids = list(range(task.federation.clients))
    cohort = Cohort(ids, LocalTrainer(task, "loop"), RunSetting(LocalWork(**WORK), 0, 10), 3)
    return Recalibrate(mix).weights(rows, fl.Message({"row": shared}), cohort)


ALL = [0, 1, 2, 3, 4]
NEW = parts(
    train=[ALL, [0, 1, 2, 3], [4], [4, 3, 2, 1, 0, 0]],
    valid=[[], [4], [], [0]],
    test=[[1, 0], [0], [1, 3], [4]],
)
"""Clients 1 and 2 lack classes in their training parts, whatever is in their other parts."""


@pytest.mark.parametrize("mix", [0.0, 0.25, 0.5, 1.0])
def test_clients_that_lack_a_class_are_mixed_and_the_others_stay_to_the_bit(mix):
    layout = NEW.layout
    own, shared = torch.randn(4, layout.width), torch.randn(layout.width)
    rows = layout.put(own, "head", layout.take(shared, "head"))
    predicted = predict(NEW, rows, shared, mix)
    for client in (0, 3):
        assert torch.equal(predicted[client], rows[client])
    for client in (1, 2):
        body = mix * layout.take(shared, "body") + (1 - mix) * layout.take(rows[client], "body")
        assert torch.allclose(layout.take(predicted[client], "body"), body, atol=1e-6)
        assert torch.equal(layout.take(predicted[client], "head"), layout.take(shared, "head"))


def test_with_nothing_of_the_shared_model_a_client_stays_itself_and_with_all_of_it_is_the_shared_model():
    rows, shared = torch.randn(4, NEW.layout.width), torch.randn(NEW.layout.width)
    assert torch.equal(predict(NEW, rows, shared, 0.0), rows)
    assert torch.equal(predict(NEW, rows, shared, 1.0)[1:3], shared.expand(2, -1))


def task_with_withheld_class() -> Task:
    """Random data whose first client lost class 3 from its training part."""
    return Task("t", with_withheld_class(federation([40, 60, 50, 30]), 3, [0]), mlp())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_in_which_only_the_client_with_a_withheld_class_predicts_otherwise(workers):
    settings = {"rounds": 4, "seed": 3, "local": {**WORK, "lr": 0.5}, "workers": workers}
    bare = fl.run(task_with_withheld_class(), OwnBody(), **settings)
    mixed = fl.run(task_with_withheld_class(), OwnBody(), prediction=[Recalibrate(1.0)], **settings)
    assert bare.row is not None
    assert torch.equal(bare.row, mixed.row)
    assert bare.clients[1:] == mixed.clients[1:]
    assert bare.clients[0] != mixed.clients[0]
    held = task_with_withheld_class().federation
    model, mine = mixed.model(task_with_withheld_class()), held.test[0]
    asked = mine[held.columns["y"][mine] == 3]
    right = (model(held.columns["x"][asked]).argmax(1) == 3).double().mean()
    name = "client_model/own_test/withheld_recall/mean"
    assert mixed.last(name) == pytest.approx(float(right))


@pytest.mark.parametrize("method", ["fedhybridavglg", "fedhybridavglgdual"])
def test_the_hybrids_share_a_whole_model_to_mix_in(method):
    settings = {"rounds": 2, "seed": 3, "local": WORK}
    spec = f"{method}:threshold=0"
    bare, mixed = (
        fl.run(task_with_withheld_class(), spec, **settings),
        fl.run(task_with_withheld_class(), f"{spec}+recalibrate", **settings),
    )
    assert bare.clients[1:] == mixed.clients[1:]
    assert bare.clients[0] != mixed.clients[0]


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("fedavg", "in fedavg clients predict with the model they receive"),
        ("fedyogi", "in fedyogi clients predict with the model they receive"),
        ("fedrep", "fedrep sends none"),
        ("lgfedavg", "lgfedavg sends none"),
        ("local", "local sends none"),
    ],
)
def test_methods_without_a_whole_shared_model_beside_the_clients_own_are_refused(method, reason):
    with pytest.raises(FedloomError, match=reason) as caught:
        fl.run(task_with_withheld_class(), f"{method}+recalibrate", rounds=1)
    assert "drop" in str(caught.value)


def test_what_else_cannot_be_is_refused():
    with pytest.raises(FedloomError, match="task quadratic has no classes"):
        fl.run(quadratic([1.0, 2.0]), OwnBody(), rounds=1, prediction=["recalibrate"])
    for mix in (-0.1, 1.1, math.nan):
        with pytest.raises(FedloomError, match=r"it must be (at least 0 and at most 1|a finite number)"):
            Recalibrate(mix)
