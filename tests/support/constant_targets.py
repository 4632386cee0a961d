"""Tasks whose targets are given one by one, for tests of baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from support.synthetic import mlp


def task_of_targets(train: Sequence[Sequence[int]], test: Sequence[Sequence[int]], classes: int = 3) -> Task:
    """Clients with these classes of training and test samples, and random inputs."""
    sizes = [len(part) for part in (*train, *test)]
    y = torch.tensor([label for part in (*train, *test) for label in part])
    x = torch.randn(len(y), 20, generator=torch.Generator().manual_seed(3))
    parts = np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])
    trained, tested = Ragged.of(parts[: len(train)]), Ragged.of(parts[len(train) :])
    federation = Federation({"x": x, "y": y}, trained, tested, Ragged.empty(len(train)), classes)
    return Task("t", federation, mlp(classes=classes))
