"""Clients with quadratic losses of one weight, whose answers are known by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from fedloom.core.task import SquaredError, Task
from fedloom.data.federation import Federation, Ragged


def quadratic(optima: list[float], curvatures: list[float]) -> Task:
    """Clients with the loss ``a/2 (w - c)²``: one sample x = √a with target c·√a, and a model of one weight."""
    x = torch.tensor(curvatures).sqrt()[:, None]
    y = x * torch.tensor(optima)[:, None]
    parts = Ragged.of(list(np.arange(len(optima))[:, None]))
    held = Federation({"x": x, "y": y}, parts, parts, Ragged.empty(len(optima)), 1)
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return Task("quadratic", held, model, objective=SquaredError())
