"""The initial model of a deployment: as tensors of a file, and back into a model."""

from __future__ import annotations

import pytest
import torch

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.initial_model import InitialModel, initial_models


def test_models_come_back_from_named_tensors_by_their_numbers():
    tasks = fl.task("digits", clients=2, models={"logistic": [0], "mlp:hidden=[8]": [1]}).by_architecture
    tensors = {}
    for number, task in enumerate(tasks):
        tensors |= {f"a/{number}/{name}": tensor for name, tensor in InitialModel.of(task).tensors().items()}
    again = initial_models(tensors, "a/")
    assert [len(model.row) for model in again] == [task.layout.width for task in tasks]
    assert initial_models({}, "a/") == ()


def test_a_model_of_another_width_is_refused():
    task = fl.task("digits", clients=2, model="logistic")
    with pytest.raises(FedloomError, match="has 650 parameters, but the blueprint has 3"):
        InitialModel(torch.zeros(3)).fill(task)
