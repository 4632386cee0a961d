"""For the clustered methods: tasks of one and of two weights, and replies whose rows can be written down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

import fedloom as fl
from fedloom.aggregation.mean import Mean
from fedloom.config.schema import RunConfig
from fedloom.core.message import Replies
from fedloom.core.objective import SquaredError
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.runs.prepare import prepare


def clients_on_a_line(optima: list[float]) -> Task:
    """Clients with the loss (w - c)²/2 and a model of one weight that starts at 0; their test parts say 5 - c."""
    count = len(optima)
    x, y = torch.ones(2 * count, 1), torch.tensor([*optima, *(5 - c for c in optima)])[:, None]
    own, other = (Ragged.of(list(first + np.arange(count)[:, None])) for first in (0, count))
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    return Task("line", Federation({"x": x, "y": y}, own, other, Ragged.empty(count), 1), model, SquaredError())


def clients_in_a_plane(clients: int) -> Task:
    """A model of two weights, so that rows are points that can be written down."""
    own = Ragged.of(list(np.arange(clients)[:, None]))
    held = Federation({"x": torch.ones(clients, 2), "y": torch.ones(clients, 1)}, own, own, Ragged.empty(clients), 1)
    return Task("plane", held, nn.Linear(2, 1, bias=False), SquaredError())


def server_context(task: Task, number: int, clients: list[int] | None = None, seed: int = 3) -> ServerContext:
    """What the server knows in a round of FedAvg on a task."""
    context = prepare(task, fl.FedAvg(), RunConfig(seed=seed)).composition.context(number)
    return context if clients is None else replace(context, clients=clients)


def replies(
    context: ServerContext, rows: list[list[float]], ids: list[int], weights: list[float], **more: torch.Tensor
) -> Replies:
    """Replies with the given rows and weights."""
    count, shares = len(ids), torch.tensor(weights)
    tensors = {"row": torch.tensor(rows), **more}
    return Replies(ids, tensors, torch.ones(count), torch.ones(count), shares, shares, Mean(), count, context)
