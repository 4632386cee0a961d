"""Shared columns: what travels is averaged, and the rest is not touched."""

from __future__ import annotations

import torch

import fedloom as fl
from fedloom.core.local_work import LocalWork
from support.clusters import replies, server_context
from support.small_images import adapted
from support.synthetic import cohort

METHOD = fl.FedSimCLR(projection=4)


def test_shared_columns_are_averaged_and_the_others_stay_as_they_are():
    task = adapted(METHOD)
    state = METHOD.start(task)
    columns = METHOD.columns(task)
    message = METHOD.broadcast(state, [0, 1])
    assert torch.equal(message["encoder"], task.initial_row()[columns])
    width = int(columns.sum())
    rows = torch.stack([torch.ones(width), torch.full((width,), 4.0)])
    answers = replies(server_context(task, 1), [[0.0]] * 2, [0, 1], [0.75, 0.25], encoder=rows)
    after = METHOD.aggregate(state, answers)["row"]
    assert torch.equal(after[columns], torch.full((width,), 1.75))
    assert torch.equal(after[~columns], task.initial_row()[~columns])


def test_clients_predict_with_the_shared_columns_and_their_own_rest():
    task = adapted(METHOD)
    some, columns = cohort(task, "loop", LocalWork()), METHOD.columns(task)
    message = fl.Message({"encoder": torch.full((int(columns.sum()),), 2.0)})
    rows = METHOD.weights_for(message, some)
    assert bool((rows[:, columns] == 2).all())
    assert torch.equal(rows[:, ~columns], some.spread(task.initial_row())[:, ~columns])
