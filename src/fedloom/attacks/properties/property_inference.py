"""Properties of a client's data that are not its labels, read from its updates.

A server that has samples with a property and samples without makes updates of both, by the training that it knows its
clients to do, and learns to tell them apart; then it looks at what a client sent. Melis, Song, De Cristofaro and
Shmatikov, Exploiting Unintended Feature Leakage in Collaborative Learning, S&P 2019, https://arxiv.org/abs/1805.04049
(passive, at the server). They train random forests on pooled features; our classifier is ridge regression on updates of
length one, which has one setting and is a product of two matrices. Its scores are averaged over rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of, local_change
from fedloom.attacks.seen_updates import Seen
from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.seeds import generator
from fedloom.core.task import Task

RIDGE = 0.01
"""What is added to the inner products of the server's updates, as a share of their mean square."""


@dataclass(frozen=True)
class ServerSamples:
    """The server's own samples, and what it makes of them.

    Args:
        has: The positions of those with the property.
        lacks: The positions of those without.
        share: Which share of a batch has the property, where some have it.
        batches: How many updates the server makes, half of them with the property.
        seed: Keys its draws.
    """

    has: Tensor
    lacks: Tensor
    share: float = 0.5
    batches: int = 300
    seed: int = 0

    def draw(self, number: int, size: int) -> Tensor:
        """The positions of one batch: every second one has the property.

        Args:
            number: The number of the batch.
            size: How many samples it has.
        """
        source = generator(self.seed, "properties", number)
        some = round(self.share * size) if number % 2 == 0 else 0
        parts = ((self.has, some), (self.lacks, size - some))
        drawn = [which[torch.randint(len(which), (count,), generator=source)] for which, count in parts]
        mixed = torch.cat(drawn)
        return mixed[torch.randperm(size, generator=source)]


def property_scores(task: Task, updates: Sequence[Seen], own: ServerSamples) -> dict[int, float]:
    """How surely each client's samples have the property: higher for clients of whom some do.

    A sum has no client, and is refused.

    Args:
        updates: What the server saw.
        own: The server's own samples.
    """
    if not task.classifies or task.has_named_inputs or not isinstance(task.objective, CrossEntropy):
        raise FedloomError(f"properties are read by repeating training on classes of one input: {task.name} has other.")
    if not len(own.has) or not len(own.lacks):
        raise FedloomError("the server needs samples with the property and samples without: give it both.")
    if any(update.of_sum for update in updates):
        raise FedloomError("a secure sum shows what all of its clients have, and the property of none of them.")
    found: dict[int, list[float]] = {}
    weights, middle, row = torch.empty(0), torch.empty(0), None
    for update in updates:
        if row is None or not torch.equal(row, update.row):
            weights, middle, row = learn_property(task, update, own)
        score = float((unit(update.trained) - middle) @ weights)
        found.setdefault(update.clients[0], []).append(score)
    return {client: sum(scores) / len(scores) for client, scores in found.items()}


def learn_property(task: Task, update: Seen, own: ServerSamples) -> tuple[Tensor, Tensor, Tensor]:
    """What tells updates with the property from others at one model: weights, the middle of all, and the model.

    Args:
        update: An update of a client that got this model.
        own: The server's own samples.
    """
    context, size = update.context, update.samples
    steps = LocalSteps.of(context.work, size, context.round, context.rounds)
    made = []
    for number in range(own.batches):
        batch = own.draw(number, size)
        change = local_change(task, update.row, inputs_of(task, batch), task.targets(batch), steps)
        made.append(unit(change.detach().double()))
    middle = torch.stack(made).mean(0)
    rows = torch.stack(made) - middle
    truth = torch.tensor([1.0, -1.0], dtype=rows.dtype).repeat(len(rows))[: len(rows)]
    inner = rows @ rows.T
    ridge = RIDGE * inner.diagonal().mean() * torch.eye(len(rows), dtype=rows.dtype)
    return rows.T @ torch.linalg.solve(inner + ridge, truth), middle, update.row


def unit(row: Tensor) -> Tensor:
    """A row of length one: how far clients go says how many steps they made.

    Args:
        row: An update.
    """
    length: Tensor = row.norm()
    return row / length.clamp(min=torch.finfo(row.dtype).tiny)
