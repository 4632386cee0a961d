"""Canaries in a run's own data: samples in the place of some training samples, each there or not by a coin of its own.

A canary is an input in a random direction, ten times as long as a sample, with a random class: its gradient is longer
than the clip norm, so that it counts as much as any sample can, and is almost orthogonal to those of samples and of
other canaries. Where its coin says "out" it is a sample that is not a number. DP-SGD counts its gradient as zero, and
that is the neighbour which the run's epsilon is stated for: how many samples a client has is public and stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import generator
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged

LEAST = 20
"""Of fewer canaries even right guesses rule out next to nothing, and all coins may fall alike."""
LENGTH = 10.0
"""How many times as long as a sample's a canary's input is. With a tenth of the noise canaries of 1, 3, 10 and 30 times
were told by 2.0, 2.0, 2.4 and 2.0 deviations."""


@dataclass(frozen=True)
class PlantedCanaries:
    """A task with canaries.

    Args:
        task: What is trained: the canaries whose coin says "out" are not numbers.
        visible: The same with all canaries, as the attacker knows them.
        positions: The positions of the canaries of each client.
        coins: 1 for each canary that is in, 0 for the others; client by client.
    """

    task: Task
    visible: Task
    positions: Ragged
    coins: Tensor


def plant_canaries(task: Task, canaries: int, seed: int) -> PlantedCanaries:
    """Put canaries into the place of training samples: as many at each client as can be.

    Args:
        task: The task, whose inputs are numbers and whose targets are classes.
        canaries: How many.
        seed: Keys the canaries, their places and their coins.
    """
    made = task.federation
    if not isinstance(made, Federation) or not task.classifies or "x" not in made.columns:
        raise FedloomError(
            f"canaries are samples of a simulation with one input and a class, and {task.name} has other."
        )
    inputs = task.inputs(torch.arange(len(made.columns["y"])))
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise FedloomError(f"canaries are inputs of numbers, and the inputs of {task.name} are none.")
    most = len(made.train.order)
    if not LEAST <= canaries <= most:
        raise FedloomError(
            f"canaries={canaries}: give at least {LEAST}, and at most as many as there are training samples, {most}."
        )
    replaced = _places(made.train, canaries, seed)
    random = generator(seed, "audit/one_run/canaries")
    lengths = torch.linalg.vector_norm(inputs[made.train.order].flatten(1), dim=1)
    ways = torch.randn(canaries, *inputs.shape[1:], generator=random)
    shape = (-1, *[1] * (inputs.dim() - 1))
    ways = ways / torch.linalg.vector_norm(ways.flatten(1), dim=1).view(shape)
    shown = (LENGTH * lengths.mean() * ways).to(inputs.dtype)
    labels = torch.randint(made.classes, (canaries,), generator=random)
    coins = torch.randint(2, (canaries,), generator=generator(seed, "audit/one_run/coins"))
    held = torch.where(coins.view(shape) == 1, shown, torch.nan)
    positions = Ragged(len(inputs) + torch.arange(canaries), _starts(made.train, replaced))
    order = made.train.order.clone()
    order[replaced] = positions.order
    columns = {
        **{name: torch.cat([column, column[made.train.order[replaced]]]) for name, column in made.columns.items()},
        "y": torch.cat([made.columns["y"], labels.to(made.columns["y"].dtype)]),
    }
    group = None if made.group is None else torch.cat([made.group, made.group[made.train.order[replaced]]])

    def with_inputs(rows: Tensor) -> Task:
        federation = replace(
            made,
            columns={**columns, "x": torch.cat([inputs, rows])},
            train=Ragged(order, made.train.starts),
            group=group,
        )
        return replace(task, federation=federation, prepare=None, made_from={})

    return PlantedCanaries(with_inputs(held), with_inputs(shown), positions, coins)


def _places(train: Ragged, canaries: int, seed: int) -> Tensor:
    """Places in the order of the training samples: one of each client, then a second one of each, and so on."""
    turns, places = [], []
    for client, size in enumerate(train.sizes.tolist()):
        drawn = torch.randperm(size, generator=generator(seed, "audit/one_run/places", client))
        places.append(int(train.starts[client]) + drawn)
        turns.append(torch.arange(size))
    turn, place = torch.cat(turns).numpy(), torch.cat(places)
    chosen = np.argsort(turn, kind="stable")[:canaries]
    return place[torch.from_numpy(chosen)].sort().values


def _starts(train: Ragged, places: Tensor) -> Tensor:
    return torch.searchsorted(places, train.starts)
