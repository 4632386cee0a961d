"""Clients with quadratic losses of one weight, whose fixed points are known by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fedloom.core.objective import SquaredError
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.rounds.run_state import RunState
from support.checkpoints import final

OPTIMA, CURVATURES = [0.0, 6.0, -3.0], [1.0, 2.0, 4.0]


def quadratic(optima: list[float], curvatures: list[float] | None = None) -> Task:
    """Clients with the loss ``a/2 (w - c)²``: one sample x = √a with target c·√a, and a model of one weight, at 0."""
    x = torch.tensor(curvatures or [1.0] * len(optima)).sqrt()[:, None]
    y = x * torch.tensor(optima)[:, None]
    parts = Ragged.of(list(np.arange(len(optima))[:, None]))
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    held = Federation({"x": x, "y": y}, parts, parts, Ragged.empty(len(optima)), 1)
    return Task("quadratic", held, model, objective=SquaredError())


def balance_point(weights: list[float]) -> float:
    """Where ``sum_k weights_k (w - c_k)`` is zero."""
    return sum(weight * c for weight, c in zip(weights, OPTIMA, strict=True)) / sum(weights)


def final_on_quadratic(folder: Path, method: Any, **settings: Any) -> RunState:
    """Where a method stops on the clients of ``OPTIMA`` and ``CURVATURES``, one step a round."""
    local = {"steps": 1, "batch_size": 0, "lr": 0.2}
    settings = {"rounds": 60, "checkpoint_every": 99, "local": local, **settings}
    return final(folder, method, quadratic(OPTIMA, CURVATURES), **settings)
