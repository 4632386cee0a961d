"""Hand cases of distillation: three samples, two clients, and models of two numbers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import torch
from torch import nn

from fedloom.aggregation.mean import Mean
from fedloom.core.message import Replies
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from support.synthetic import federation, small_conv


def linear() -> nn.Sequential:
    """Two outputs of one input, without bias, both with the weight 1."""
    model = nn.Sequential(nn.Linear(1, 2, bias=False))
    nn.init.ones_(model[0].weight)  # type: ignore[arg-type]
    return model


def three_samples() -> Task:
    """Client 0 has the samples 1 and 2 of class 0, client 1 has 4 of class 1; all of them are communal."""
    columns = {"x": torch.tensor([[1.0], [2.0], [4.0]]), "y": torch.tensor([0, 0, 1])}
    parts = Ragged.of([torch.tensor([0, 1]).numpy(), torch.tensor([2]).numpy()])
    every = torch.arange(3)
    return Task("three", Federation(columns, parts, parts, Ragged.empty(2), 2, every, every), linear())


def conv_task(sizes: tuple[int, ...] = (24, 18, 12)) -> Task:
    """Clients with 1×8×8 images of five classes, a communal set, and a small network with two stages."""
    made = federation(list(sizes), (1, 8, 8))
    return Task("conv", replace(made, communal=torch.arange(0, sum(sizes), 4)), small_conv())


def replies_of(tensors: dict[str, torch.Tensor], weights: tuple[float, ...] = (0.25, 0.75)) -> Replies:
    """Replies of two clients with these weights, of which the mean is taken."""
    share, samples = torch.tensor(weights), torch.tensor([1, 3])
    context = SimpleNamespace()
    return Replies([0, 1], tensors, samples, samples, share, share, Mean(), 2, context)  # type: ignore[arg-type]


def unlabelled(task: Task) -> Task:
    """A task whose communal samples have no labels."""
    return replace(task, federation=replace(task.federation, communal_labelled=False))
