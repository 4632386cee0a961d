"""Chains of layers: the gradients of single samples that are never formed are those of torch.func."""

import pytest
import torch
from torch import nn

from fedloom.core.task import Task
from fedloom.training.dpsgd import ghost_clipping, sample_gradients
from fedloom.training.dpsgd.ghost_clipping import chain_layers
from fedloom.training.keyed_dropout import with_keyed_dropout
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import Branching, federation, mlp

CHAINS = {
    "padded, strided and dilated": lambda: nn.Sequential(
        nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)), nn.Tanh(),
        nn.Flatten(), nn.LazyLinear(5),
    ),
    "padded to the same size": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 3, bias=False), nn.AvgPool2d(2),
        nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.GELU()), nn.Linear(6, 5),
    ),
    "frozen first layer": lambda: nn.Sequential(
        nn.Conv2d(2, 3, 3).requires_grad_(False), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.LazyLinear(5)
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_a_chain_of_convolutions_has_the_sums_of_vmap(make, monkeypatch):
    monkeypatch.setattr(ghost_clipping, "PATCHES_AT_ONCE", 500)
    model = make()
    model(torch.zeros(1, 2, 9, 8))
    task = Task("t", federation([7, 7, 7], (2, 9, 8)), model)
    trainer = LocalTrainer(task, "vectorised")
    rows = torch.stack([task.initial_row() * (1 + 0.3 * client) for client in range(3)])
    stacks, moving = trainer.stacks(rows), [slot.name for slot in task.layout.moving(None)]
    positions = torch.arange(21).view(3, 7)
    x, mask = task.inputs(positions), torch.ones(3, 7)
    mask[1, 4:] = 0
    batch, keys = (x, task.targets(positions), mask), torch.zeros(3, dtype=torch.int64)
    assert chain_layers(trainer.model, x) is not None
    found = sample_gradients.clipped_gradient_sums(trainer, stacks, moving, batch, keys, 0.3)
    expected = sample_gradients._sums_by_vmap(trainer, stacks, moving, batch, keys.expand(7, 3).t(), 0.3)
    for one, two in zip(found, expected, strict=True):
        assert torch.allclose(one, two, atol=2e-6)


@pytest.mark.parametrize(
    "model",
    [
        Branching(),
        nn.Sequential(nn.Linear(20, 5), nn.BatchNorm1d(5)),
        nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten()),
        nn.Sequential(nn.Conv2d(2, 4, 3, padding_mode="circular"), nn.Flatten()),
    ],
)
def test_other_models_are_no_chain(model):
    assert chain_layers(model, torch.zeros(1, 1, 2, 8, 8)) is None


def test_linear_layers_on_more_than_vectors_are_no_chain():
    assert chain_layers(with_keyed_dropout(mlp()), torch.zeros(1, 1, 20)) is not None
    assert chain_layers(nn.Sequential(nn.Linear(20, 5)), torch.zeros(1, 1, 3, 20)) is None
