"""Sums of clipped gradients: by hand, sample by sample, and whichever way they are computed."""

import pytest
import torch
from torch import nn

from fedloom.core.objective import CrossEntropy, SquaredError
from fedloom.core.task import Task
from fedloom.models import build
from fedloom.training.dpsgd import sample_gradients
from fedloom.training.dpsgd.ghost_clipping import chain_layers
from fedloom.training.dpsgd.sample_gradients import clipped_gradient_sums
from fedloom.training.local_trainer import LocalTrainer
from support.synthetic import Branching, federation, mlp

CLIP = 0.4
MODELS = {
    "chain": (mlp, (20,)),
    "chain of images": (lambda: mlp(20), (1, 4, 5)),
    "any": (Branching, (20,)),
    "convolutions": (lambda: build("cnn-small", (1, 12, 12), 5, 0), (1, 12, 12)),
}


def tensors_of(task: Task, clients: int) -> tuple[LocalTrainer, dict[str, torch.Tensor], list[str]]:
    """A trainer, the stacks of some clients with weights of their own, and the names of what moves."""
    trainer = LocalTrainer(task, "vectorised")
    rows = torch.stack([task.initial_row() * (1 + 0.2 * client) for client in range(clients)])
    return trainer, trainer.stacks(rows), [slot.name for slot in task.layout.moving(None)]


def one_by_one(task: Task, rows: torch.Tensor, positions: torch.Tensor, clip: float) -> torch.Tensor:
    """The sum of one client's clipped gradients, with an ordinary module and a batch of one sample at a time."""
    task.layout.fill(task.model, rows)
    task.model.eval()
    total = torch.zeros(task.layout.width)
    for position in positions:
        task.model.zero_grad()
        values, counts = task.objective.losses(task.model(task.inputs(position[None])), task.targets(position[None]))
        (values / counts).sum().backward()
        gradient = torch.cat([p.grad.flatten() for p in task.model.parameters()])
        total += gradient * min(1.0, clip / float(gradient.norm()))
    return total


def without_dropout(model: nn.Module) -> nn.Module:
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return model


@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS)
def test_sums_are_those_of_a_loop_over_samples(case, monkeypatch):
    make, shape = case
    task = Task("t", federation([6, 6], shape), without_dropout(make()))
    trainer, stacks, moving = tensors_of(task, 2)
    monkeypatch.setattr(sample_gradients, "NUMBERS_AT_ONCE", 3 * 2 * task.layout.width)  # two chunks of samples
    positions = torch.arange(12).view(2, 6)
    mask = torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2])
    batch = (task.inputs(positions), task.targets(positions), mask)
    sums = clipped_gradient_sums(trainer, stacks, moving, batch, torch.zeros(2, dtype=torch.int64), CLIP)
    for client, real in enumerate((6, 4)):
        row = task.initial_row() * (1 + 0.2 * client)
        expected = one_by_one(task, row, positions[client, :real], CLIP)
        found = torch.cat([g[client].flatten() for g in sums])
        assert torch.allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("case", MODELS.values(), ids=MODELS)
def test_a_sample_whose_gradient_is_not_finite_counts_as_zero(case):
    """Else it would decide alone whether its client diverges, which everybody sees."""
    make, shape = case
    task = Task("t", federation([6, 6], shape), without_dropout(make()))
    trainer, stacks, moving = tensors_of(task, 2)
    positions, keys = torch.arange(12).view(2, 6), torch.zeros(2, dtype=torch.int64)
    x, y, mask = task.inputs(positions), task.targets(positions), torch.ones(2, 6)
    huge, without = x.clone(), mask.clone()
    huge[1, 2], without[1, 2] = 1e38, 0.0
    assert not bool(trainer.model(huge[1, 2:3]).square().sum().isfinite())
    found = clipped_gradient_sums(trainer, stacks, moving, (huge, y, mask), keys, CLIP)
    expected = clipped_gradient_sums(trainer, stacks, moving, (x, y, without), keys, CLIP)
    for one, two in zip(found, expected, strict=True):
        assert torch.allclose(one, two, atol=1e-7)


def test_two_samples_by_hand():
    """w = (1, 0), loss (w x - y)² / 2: the gradients are (3, 4) of norm 5, clipped to (0.6, 0.8), and (0.3, 0)."""
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
    data = federation([2])
    data.columns["x"] = torch.tensor([[3.0, 4.0], [0.5, 0.0]])
    data.columns["y"] = torch.tensor([2.0, -0.1])
    task = Task("t", data, model, SquaredError())
    trainer, stacks, moving = tensors_of(task, 1)
    positions = torch.tensor([[0, 1]])
    batch = (task.inputs(positions), task.targets(positions), torch.ones(1, 2))
    (total,) = clipped_gradient_sums(trainer, stacks, moving, batch, torch.zeros(1, dtype=torch.int64), 1.0)
    assert total.flatten().tolist() == pytest.approx([0.6 + 0.3, 0.8])


def test_only_what_moves_has_a_norm():
    task = Task("t", federation([4]), mlp())
    trainer, stacks, _ = tensors_of(task, 1)
    positions = torch.arange(4).view(1, 4)
    batch = (task.inputs(positions), task.targets(positions), torch.ones(1, 4))
    head = [slot.name for slot in task.layout.moving("head")]
    keys = torch.zeros(1, dtype=torch.int64)
    by_layers = clipped_gradient_sums(trainer, stacks, head, batch, keys, 0.01)
    by_vmap = sample_gradients._sums_by_vmap(trainer, stacks, head, batch, torch.zeros(1, 4, dtype=torch.int64), 0.01)
    assert len(by_layers) == 2
    for one, two in zip(by_layers, by_vmap, strict=True):
        assert torch.allclose(one, two, atol=1e-7)
    total = torch.cat([g.flatten() for g in by_layers])
    assert 0.01 < float(total.norm()) <= 4 * 0.01 * (1 + 1e-5)


def test_a_sequence_counts_as_one_sample():
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 5))
    data = federation([3], (6,), tokens=7)
    data.columns["y"] = torch.randint(0, 5, (3, 6), generator=torch.Generator().manual_seed(1))

    class LastAxis(CrossEntropy):
        def losses(self, outputs, targets):
            return (
                super().losses(outputs.flatten(0, 1), targets.flatten())
                if outputs.dim() == 4
                else (super().losses(outputs, targets))
            )

    task = Task("t", data, model, LastAxis())
    trainer, stacks, moving = tensors_of(task, 1)
    assert chain_layers(trainer.model, task.inputs(torch.arange(3).view(1, 3))) is None
    positions = torch.arange(3).view(1, 3)
    batch = (task.inputs(positions), task.targets(positions), torch.ones(1, 3))
    sums = clipped_gradient_sums(trainer, stacks, moving, batch, torch.zeros(1, dtype=torch.int64), CLIP)
    expected = one_by_one(task, task.initial_row(), torch.arange(3), CLIP)
    assert torch.allclose(torch.cat([g.flatten() for g in sums]), expected, atol=2e-6)
    assert float(expected.norm()) <= 3 * CLIP


class TakesTheMeanOff(nn.Module):
    """A model that mixes the samples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(20, 5)

    def forward(self, x):
        return self.layer(x - 0.5 * x.mean(0))


def test_a_model_that_mixes_samples_is_clipped_sample_by_sample():
    """One sample moves the sum by at most the clip norm, whatever the model does with a batch."""
    task = Task("t", federation([4]), TakesTheMeanOff())
    trainer, stacks, moving = tensors_of(task, 1)
    positions, keys = torch.arange(4).view(1, 4), torch.zeros(1, dtype=torch.int64)
    x, y = task.inputs(positions), task.targets(positions)
    other = x.clone()
    other[0, 0] = 100.0
    one, two = (
        torch.cat(
            [
                g.flatten()
                for g in clipped_gradient_sums(trainer, stacks, moving, (some, y, torch.ones(1, 4)), keys, CLIP)
            ]
        )
        for some in (x, other)
    )
    assert float((one - two).norm()) <= 2 * CLIP * (1 + 1e-5)
