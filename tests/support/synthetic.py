"""Small federations and models for tests: random data, exact control over sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.network import Network
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.training.local_trainer import LocalTrainer

SIZES = [33, 9, 50, 20]
"""The training samples of the small task's clients."""


def federation(sizes: list[int], shape: tuple[int, ...] = (20,), classes: int = 5, tokens: int = 0) -> Federation:
    """Clients of given sizes with random samples; each client's test part is its training part."""
    total = sum(sizes)
    generator = torch.Generator().manual_seed(7)
    x = torch.randint(0, tokens, (total, *shape), generator=generator) if tokens else torch.randn(total, *shape, generator=generator)  # fmt: skip # noqa: E501
    y = torch.randint(0, classes, (total,), generator=generator)
    parts = Ragged.of(np.split(np.arange(total), np.cumsum(sizes)[:-1]))
    positions = torch.arange(total)
    return Federation({"x": x, "y": y}, parts, parts, Ragged.empty(len(sizes)), classes, global_test=positions)


def mlp(inputs: int = 20, hidden: int = 16, classes: int = 5, dropout: float = 0.0) -> nn.Module:
    """A chain of linear layers with fixed initial weights."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, classes)
        )


def small_conv() -> nn.Module:
    """Two stages of convolutions and a head for 1×8×8 images and five classes, with fixed initial weights."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        first, second = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 4, 3, stride=2, padding=1)
        model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    model.stages = ("1", "3")  # type: ignore[assignment]
    return model


def staged_mlp() -> nn.Module:
    """``mlp`` with its hidden layer as its only stage."""
    model = mlp()
    model.stages = ("2",)  # type: ignore[assignment]
    return model


def staged_tasks(sizes: list[int]) -> dict[str, Task]:
    """A task of each kind of model with stages."""
    return {
        "mlp": Task("t", federation(sizes), staged_mlp()),
        "conv": Task("t", federation(sizes, (1, 8, 8)), small_conv()),
    }


def small_task() -> Task:
    """Four clients of unequal sizes and a small network."""
    return Task("t", federation(SIZES), mlp())


def mlp_features(task: Task, row: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What the head of ``mlp`` sees, written out."""
    tensors = task.layout.views(row)
    return F.relu(x @ tensors["1.weight"].t() + tensors["1.bias"])


def perturb(row: torch.Tensor, seed: int) -> torch.Tensor:
    """A row with noise added."""
    return row + 0.3 * torch.randn(row.shape, generator=torch.Generator().manual_seed(seed))


class Branching(nn.Module):
    """A model that is no graph of steps (einsum), so that only vmap can vectorise it."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(2)
            self.left, self.right = nn.Linear(20, 8), nn.Linear(20, 8)
            self.drop, self.head = nn.Dropout(0.2), nn.Linear(8, 5)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("...i,...i->...i", torch.tanh(self.left(x)), self.right(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.features(x)))


def cohort(
    task: Task,
    execution: str,
    work: LocalWork,
    ids: list[int] | None = None,
    seed: int = 3,
    privacy: SamplePrivacy | None = None,
) -> Cohort:
    """A cohort of a task in round 1 of 10."""
    ids = list(range(task.federation.clients)) if ids is None else ids
    return Cohort(ids, LocalTrainer(task, execution), RunSetting(work, seed, 10, privacy), 1)


def train_all(task: Task, execution: str, work: LocalWork, ids: list[int] | None = None, **how: object) -> torch.Tensor:
    """The rows of a cohort after training from the task's initial row."""
    some = cohort(task, execution, work, ids)
    return some.train(some.spread(task.initial_row()), **how)  # type: ignore[arg-type]


def decorrelation(net: Network, x: torch.Tensor, y: torch.Tensor, given: Mapping[str, Any]) -> Any:
    """A loss of the whole batch: cross-entropy with margins per class, and how correlated its features are."""
    share = (net.mask / net.mask.sum()).unsqueeze(1)
    z = net.at({}).features(x).flatten(1)
    z = z - (share * z).sum(0)
    z = z / ((share * z.square()).sum(0) + 1e-4).sqrt()
    penalty = (z.T @ (share * z)).square().mean()
    return F.cross_entropy(net(x) - given["margins"], y, reduction="none") + penalty, torch.ones(len(y))


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference relative to the largest entry."""
    return float((a - b).abs().max() / a.abs().max())
