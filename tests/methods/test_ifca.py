"""IFCA: each client takes the model of least training loss; models start differently."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.methods.clustered import NO_CLUSTER
from fedloom.methods.ifca import draw_row
from support.checkpoints import same
from support.clusters import clients_in_a_plane, clients_on_a_line, replies, server_context
from support.synthetic import SIZES, cohort, federation, small_task


def ifca_message(*weights: float) -> fl.Message:
    return fl.Message({"rows": torch.tensor(weights)[:, None]})


@pytest.mark.parametrize("execution", ["loop", "vectorised"])
def test_each_client_trains_and_predicts_with_the_model_of_least_training_loss(execution):
    task, work = clients_on_a_line([1.0, 4.0, 2.0]), LocalWork(steps=1, batch_size=0, lr=0.5)
    message = ifca_message(0.0, 5.0)
    reply = fl.IFCA().client_update(cohort(task, execution, work), message)
    assert reply.tensors["choice"].tolist() == [0, 1, 0]
    assert reply.tensors["row"].flatten().tolist() == [0.5, 4.5, 1.0]  # half way to the client's optimum
    assert fl.IFCA().weights_for(message, cohort(task, execution, work)).flatten().tolist() == [0.0, 5.0, 0.0]


def test_each_model_becomes_the_mean_of_those_who_chose_it_or_stays():
    where = server_context(clients_in_a_plane(4), 2)
    state = {"rows": torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), "cluster": torch.full((4,), NO_CLUSTER)}
    choice = torch.tensor([2, 0, 2], dtype=torch.int32)
    rows = [[1.0, 0.0], [8.0, 8.0], [5.0, 4.0]]
    after = fl.IFCA(clusters=3).aggregate(state, replies(where, rows, [0, 2, 3], [0.3, 0.6, 0.1], choice=choice))
    assert torch.allclose(after["rows"], torch.tensor([[8.0, 8.0], [1.0, 1.0], [2.0, 1.0]]))
    assert after["cluster"].tolist() == [2, NO_CLUSTER, 0, 2]


def initial_rows(task: Task, seed: int) -> torch.Tensor:
    method = fl.IFCA(clusters=3)
    prelude = method.prelude(method.start(task), server_context(task, 0, seed=seed))
    with pytest.raises(StopIteration) as end:
        next(prelude)
    return end.value.value["rows"]


def test_models_start_differently_and_the_same_in_every_run_of_a_seed():
    task = small_task()
    rows = initial_rows(task, 3)
    assert same(rows[0], task.initial_row())
    assert torch.pdist(rows).min() > 1
    assert same(rows, initial_rows(task, 3))
    assert torch.pdist(torch.stack([rows[1], initial_rows(task, 4)[1]])).item() > 1


def test_drawing_models_anew_touches_neither_frozen_layers_nor_statistics_nor_other_randomness():
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.Linear(6, 5))
    model[0].weight.requires_grad_(False)
    model[1].running_mean += 3
    task = Task("t", federation(SIZES), model)
    before, torch_state = task.initial_row(), torch.get_rng_state()
    row = draw_row(task, 1)
    moved = row != before
    views = task.layout.views(moved)
    assert "0.weight" not in views  # frozen: no part of a row
    assert not views["1.running_mean"].any()
    assert views["2.weight"].all()
    assert torch.equal(torch_state, torch.get_rng_state())
    assert same(task.initial_row(), before)


def test_a_model_that_cannot_be_drawn_anew_is_refused():
    class Raw(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(20, 5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    task = Task("t", federation(SIZES), Raw())
    with pytest.raises(FedloomError, match="no layer of Raw can be reset"):
        fl.run(task, "ifca", rounds=1)
    fl.run(task, fl.IFCA(clusters=1), rounds=1)
