"""A few tiny images: two clients with three images each, communal images and images of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.local_work import LocalWork
from fedloom.core.seeds import generator
from fedloom.core.task import Task
from fedloom.data.federation import Federation, Ragged
from fedloom.methods.selfsupervised.two_views import TwoViews
from fedloom.training.batches import Assignment
from support.synthetic import mlp

ONE_STEP = {"steps": 1, "batch_size": 0, "lr": 0.1}
SEED = 3


def two_clients(images: int = 3, communal: int = 4, server: int = 5, colours: int = 1) -> Task:
    """Two clients with so many images of 4×4 pixels and three classes each; labels follow the brightness."""
    total = 2 * images + communal + server
    drawn = torch.Generator().manual_seed(11)
    y = torch.arange(total) % 3
    x = torch.randn(total, colours, 4, 4, generator=drawn) + y.view(-1, 1, 1, 1).float()
    parts = Ragged.of(np.split(np.arange(2 * images), 2))
    rest = torch.arange(2 * images, total)
    made = Federation(
        {"x": x, "y": y},
        parts,
        parts,
        Ragged.empty(2),
        3,
        communal=rest[:communal],
        server=rest[communal:],
        server_classes=3,
    )
    return Task("small images", made, mlp(16 * colours, 6, 3))


def layers(task: Task, row: Tensor, *names: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Weights and biases of some linear layers in a row."""
    tensors: Mapping[str, Tensor] = task.layout.views(row)
    for name in names:
        yield tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def hidden(task: Task, row: Tensor, x: Tensor) -> Tensor:
    """The features of the task's model, written out."""
    (first,) = layers(task, row, "model.1")
    return F.relu(F.linear(x.flatten(1), *first))


def project(task: Task, row: Tensor, x: Tensor, name: str = "projection") -> Tensor:
    """SimCLR's head behind the features, written out."""
    inside, last = layers(task, row, f"{name}.0", f"{name}.2")
    return F.linear(F.relu(F.linear(hidden(task, row, x), *inside)), *last)


def views(method: TwoViews, task: Task, client: int, seed: int = SEED, number: int = 1) -> Tensor:
    """The two views of a client's images in the only step of a round."""
    (positions,) = batches(task, client, seed, number)
    x = task.inputs(positions)
    assert isinstance(x, Tensor)
    return method.augmentation.two_views(x, generator(seed, "augment", number, client))


def batches(task: Task, client: int, seed: int = SEED, number: int = 1) -> list[Tensor]:
    """The batches of a client in a round of one step."""
    return list(Assignment.of(client, task.federation.train[client], LocalWork(**ONE_STEP), seed, number))


def nt_xent_by_hand(one: Tensor, two: Tensor, temperature: float, negatives: Tensor | None = None) -> Tensor:
    """NT-Xent as the paper writes it, view by view."""
    z = torch.cat([one, two])
    total, n = torch.zeros(()), len(one)
    for i in range(2 * n):
        near = torch.exp(F.cosine_similarity(z[i], z[(i + n) % (2 * n)], dim=0) / temperature)
        others = [z[k] for k in range(2 * n) if k != i] + ([] if negatives is None else list(negatives))
        below = sum(torch.exp(F.cosine_similarity(z[i], other, dim=0) / temperature) for other in others)
        total = total - torch.log(near / below)
    return total / (2 * n)


def adapted(method: Algorithm, task: Task | None = None) -> Task:
    """The task as a method's runs have it."""
    return method.adapt_task(task or two_clients())
