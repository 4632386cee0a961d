"""The learning rates of a cohort's steps, where they change within a round."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedloom.core.trainer import TrainingRequest
from fedloom.training.batches import Assignment
from fedloom.training.optimizers.optimizer import Rate


def rate_table(request: TrainingRequest, assignments: Sequence[Assignment]) -> Tensor | None:
    """The rate of each client at each of its steps (clients × steps); None where a round has one rate.

    Args:
        assignments: What each client does.
    """
    if request.rates is None:
        return None
    numbers = [one.steps for one in assignments]
    table = torch.zeros(len(numbers), max(numbers), dtype=torch.float64)
    for steps in set(numbers):
        row = torch.tensor([request.rates(step, steps) for step in range(steps)], dtype=torch.float64)
        table[torch.tensor(numbers) == steps, :steps] = row
    return table


def rate_of_step(table: Tensor, places: int | Tensor, done: Tensor) -> Rate:
    """The rate of the next step of some clients: one number if it is the same for all of them.

    Args:
        table: The rates of all steps.
        places: The places of the clients in the cohort, or how many of the first.
        done: How many steps each client of the cohort has made.
    """
    clients = torch.arange(places) if isinstance(places, int) else places
    rates = table[clients, done[clients]]
    return float(rates[0]) if bool((rates == rates[0]).all()) else rates.float()


def rate_sums(request: TrainingRequest, table: Tensor | None, steps: Tensor) -> Tensor:
    """The sum of the rates of each client's steps.

    Args:
        table: The rates of all steps; None where a round has one rate.
        steps: How many steps each client makes.
    """
    return steps * request.lr if table is None else table.sum(1).float()
