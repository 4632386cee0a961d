"""FedPer: heads that stay with their clients, and whatever the model calls its head."""

from __future__ import annotations

import torch
from torch import nn

from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from support.checkpoints import WORK, final, same
from support.synthetic import SIZES, Branching, cohort, distance, federation, mlp


def test_one_client_alone_has_nothing_to_decouple(tmp_path):
    """All of the model is trained: with one client this is local training."""
    task = Task("t", federation([40]), mlp())
    local = final(tmp_path / "local", "local", task).client_states.rows["row"][0]
    state = final(tmp_path / "run", "fedper", task)
    row = task.layout.put(state.server["row"], "head", state.client_states.rows["head"][0])
    assert same(row, local)


def test_a_model_may_name_its_own_head(tmp_path):
    model = Branching()
    model.parts = {"head": ["right.*"]}
    task = Task("t", federation(SIZES), model)
    state = final(tmp_path / "run", "fedper", task, rounds=1)
    moved = task.layout.views(state.server["row"] != task.initial_row())
    assert not moved["right.weight"].any()
    assert moved["left.weight"].any()
    assert moved["head.weight"].any()


def test_buffers_of_the_body_are_shared_with_it(tmp_path):
    model = nn.Sequential(nn.Linear(20, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 5))
    task = Task("t", federation([32, 48, 16]), model)
    state = final(tmp_path / "run", "fedper", task, rounds=1)
    some = cohort(task, "loop", LocalWork(**WORK))
    rows = some.train(some.spread(task.initial_row()))
    expected = torch.tensor([32.0, 48.0, 16.0]) / 96 @ task.layout.views(rows)["1.running_mean"]
    assert distance(expected, task.layout.views(state.server["row"])["1.running_mean"]) < 1e-5
