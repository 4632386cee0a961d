"""The canary: a client, or a sample, whose change is as large as the clip norm and always points the same way.

All others have samples of zeros, of which a linear model learns nothing. So what a mechanism releases along the
canary's direction is its noise, and the canary: the neighbour in which the canary counts as zero, or is replaced by its
opposite, differs by exactly what the noise is made for. An attacker cannot do better than to look there.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged

SIZE = 10.0
"""The canary's input: its gradient is far above the clip norm, also when the model has moved a little."""
CLIP = 1e-3
"""So small that a model which moves by it in every round predicts the same: the canary's gradient stays."""
DIRECTION = torch.tensor([-1.0, 0.0, 1.0, 0.0], dtype=torch.float64) / 2**0.5
"""Where the canary's gradient points, as a row of the model."""
Presence = Literal["in", "zero", "opposite"]


def canary_task(clients: int, canaries: int, presence: Presence, samples: int = 1) -> Task:
    """Clients of whom some have a canary as their first sample; all other samples are zeros.

    Args:
        clients: How many there are.
        canaries: How many of them have one; the first ones.
        presence: Whether the canary is there, is zero, or is its opposite.
        samples: How many samples each client has.
    """
    x, y = torch.zeros(clients * samples, 2), torch.ones(clients * samples, dtype=torch.int64)
    places = samples * torch.arange(canaries)
    x[places, 0] = 0.0 if presence == "zero" else SIZE
    y[places] = 0 if presence == "opposite" else 1
    parts = Ragged.of(np.split(np.arange(len(x)), clients))
    federation = Federation({"x": x, "y": y}, parts, Ragged.empty(clients), Ragged.empty(clients), 2)
    return Task("canary", federation, blank_model())


def blank_model() -> nn.Module:
    """A linear model of two inputs and two classes, with zeros."""
    layer = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(layer.weight)
    return nn.Sequential(layer)


def along_canary(rows: Tensor) -> Tensor:
    """What of some changes points where the canary does, in clip norms.

    Args:
        rows: Changes of the model.
    """
    return rows.double() @ DIRECTION / CLIP
