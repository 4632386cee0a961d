"""Shadow models: models like the attacked one, of which an attacker knows what they were trained on.

Each is trained on a random half of a pool of samples, so that every sample was seen by about half of them. Who trains
them, and how, is the caller's: the nearer to the attacked model's training, the better the attack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.membership.signals import confidence_at
from fedloom.core.seeds import generator
from fedloom.core.task import Task

Train = Callable[[Tensor, int], Tensor]
"""Trains a model on the samples at some positions, with a seed, and returns its row."""


@dataclass(frozen=True)
class Shadows:
    """Shadow models and what they were trained on.

    Args:
        rows: A model per row.
        pool: The positions of the samples that they were drawn from.
        inside: Whether a model was trained on a sample of the pool: models×samples.
    """

    rows: Tensor
    pool: Tensor
    inside: Tensor

    def confidence(self, task: Task) -> Tensor:
        """The scaled confidence of each model in each sample of the pool: models×samples."""
        return torch.stack([confidence_at(task, row, self.pool) for row in self.rows])


def train_shadows(pool: Tensor, number: int, train: Train, seed: int = 0) -> Shadows:
    """Shadow models on random halves of a pool: two of them share it out, so that every sample is in half of them.

    Args:
        pool: The positions of samples; those whose membership is asked among them (online), or not (offline).
        number: How many models; an even number.
        seed: Keys the halves and the training.
    """
    rows, inside = list[Tensor](), list[Tensor]()
    for pair in range((number + 1) // 2):
        order = torch.randperm(len(pool), generator=generator(seed, "shadows", pair))
        half = torch.zeros(len(pool), dtype=torch.bool)
        half[order[: len(pool) // 2]] = True
        for mask in (half, ~half):
            rows.append(train(pool[mask], len(rows) + 1))
            inside.append(mask)
    return Shadows(torch.stack(rows[:number]), pool, torch.stack(inside[:number]))
