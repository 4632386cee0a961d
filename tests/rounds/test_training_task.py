"""What a method's clients train on: their own data, or all of them once for each architecture."""

from __future__ import annotations

import torch

import fedloom as fl
from fedloom.methods.centralised import Centralised
from fedloom.methods.local import Local
from fedloom.rounds.training_task import training_task


def test_most_methods_train_on_the_task_itself():
    task = fl.task("digits", clients=3)
    assert training_task(task, Local(), ()) is task


def test_pooled_data_are_one_client_per_architecture():
    task = fl.task("digits", clients=3, models={"logistic": [0, 1], "mlp:hidden=[8]": [2]})
    pooled = training_task(task, Centralised(), ())
    everybody = torch.cat([task.federation.train[client] for client in range(3)])
    assert pooled.federation.clients == 2
    assert all(torch.equal(pooled.federation.train[number], everybody) for number in range(2))
    assert pooled.architectures.of_client.tolist() == [0, 1]


def test_without_architectures_pooled_data_are_one_client():
    pooled = training_task(fl.task("digits", clients=3), Centralised(), (2,))
    assert pooled.federation.clients == 1
    assert pooled.architectures is None
