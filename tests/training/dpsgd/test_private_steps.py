"""DP-SGD: without noise it is SGD, its noise is what the ledger counts, and an attacker learns no more than that."""

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.objective import SquaredError
from fedloom.core.pull import Affine
from fedloom.core.task import Task
from fedloom.privacy.sample_privacy import SamplePrivacy
from fedloom.training.batches import Assignment
from fedloom.training.dpsgd.private_steps import draw_batches
from support.distinguishing import violation
from support.synthetic import Branching, cohort, decorrelation, distance, federation, mlp, train_all

NOTHING = SamplePrivacy(noise=1e-12, clip=1e5)
"""A clip norm that no gradient reaches, and next to no noise."""
UNEQUAL = [60, 33, 20, 7, 5]


def train(task, privacy, work, execution="vectorised", ids=None, **how):
    some = cohort(task, execution, work, ids, privacy=privacy)
    return some.train(some.spread(task.initial_row()), **how)


@pytest.mark.parametrize("work", [
    LocalWork(steps=5, batch_size=0),
    LocalWork(steps=5, batch_size=0, momentum=0.9, nesterov=True, weight_decay=0.01),
    LocalWork(epochs=3, batch_size=100),
])  # fmt: skip
@pytest.mark.parametrize("make", [mlp, Branching])
def test_without_noise_and_clipping_full_batches_are_sgd(make, work):
    model = make()
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    task = Task("t", federation(UNEQUAL), model)
    assert distance(train_all(task, "vectorised", work), train(task, NOTHING, work)) < 1e-5


def test_a_pull_is_added_to_the_noisy_gradient():
    task, work = Task("t", federation(UNEQUAL), mlp()), LocalWork(steps=5, batch_size=0)
    pull = Affine(lambda rows, received: 0.3 * (rows - 2 * received))
    assert distance(train_all(task, "loop", work, pull=pull), train(task, NOTHING, work, pull=pull)) < 1e-5


def test_only_the_named_part_moves():
    task = Task("t", federation(UNEQUAL), mlp())
    rows = train(task, SamplePrivacy(), LocalWork(epochs=1, batch_size=5), part="head")
    body = task.layout.columns("body")
    assert torch.equal(rows[:, body], task.initial_row()[body].expand(len(UNEQUAL), -1))
    assert not torch.equal(rows, task.initial_row().expand_as(rows))


def test_a_seeded_client_trains_beside_others_as_it_would_alone_in_every_execution():
    task = Task("t", federation(UNEQUAL), mlp(dropout=0.3))
    work, privacy = LocalWork(epochs=2, batch_size=8), SamplePrivacy(noise=0.5, seeded=True)
    together = train(task, privacy, work)
    for client in range(len(UNEQUAL)):
        alone = train(task, privacy, work, "loop", [client])
        assert distance(together[client], alone[0]) < 1e-5


def test_noise_of_the_system_is_never_the_same():
    task, work = Task("t", federation([20]), mlp()), LocalWork(steps=1)
    assert not torch.equal(*(train(task, SamplePrivacy(), work) for _ in range(2)))


def test_the_noise_has_the_deviation_that_the_ledger_counts_however_many_samples_were_drawn():
    """Gradients are zero here, so a step is noise alone: lr * noise * clip / (expected batch size)."""
    data = federation([50] * 200, (25,))
    data.columns["x"].zero_()
    model = nn.Sequential(nn.Linear(25, 4, bias=False))
    data.columns["y"] = torch.zeros(200 * 50, 4)
    task = Task("t", data, model, SquaredError())
    rows = train(task, SamplePrivacy(noise=2.0, clip=3.0), LocalWork(steps=1, batch_size=10, lr=0.1))
    moved = (rows - task.initial_row()).flatten() / (0.1 * 2.0 * 3.0 / 10)
    assert kstest(moved.numpy(), "norm").pvalue > 1e-4


def released(sample: float, noise: float, claimed: float, runs: int = 10_000) -> np.ndarray:
    """What a step of many clients with four samples each does to one weight; the first sample has this gradient."""
    data = federation([4] * runs, (1,))
    data.columns["x"] = torch.tensor([[1.0], [1.0], [1.0], [1.0]]).repeat(runs, 1)
    data.columns["y"] = torch.tensor([-100.0 * sample, 0.5, -0.5, 0.0]).repeat(runs)
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    nn.init.zeros_(model[0].weight)
    privacy = SamplePrivacy(noise=noise, clip=1.0)
    rows = train(Task("t", data, model, SquaredError()), privacy, LocalWork(steps=1, batch_size=2, lr=1.0))
    return -rows.flatten().numpy() * 2 / claimed


@pytest.mark.slow
@pytest.mark.exhaustive
def test_an_attacker_tells_a_sample_no_better_than_epsilon_allows():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    from fedloom.privacy.client_ledger import SampleLedger

    delta = 1e-3
    epsilon = SampleLedger(1.0, delta, batch_size=2).epsilon(4, 1)
    assert violation(released(1, 1.0, 1.0), released(0, 1.0, 1.0), epsilon, delta) <= 0
    assert violation(released(1, 0.4, 1.0), released(0, 0.4, 1.0), epsilon, delta) > 0  # noise scaled wrongly


def test_losses_and_steps_of_a_methods_own_are_refused():
    task = Task("t", federation([20]), mlp())
    with pytest.raises(FedloomError, match="loss or in steps of"):
        train(task, SamplePrivacy(), LocalWork(), loss=decorrelation, given={"margins": torch.zeros(1, 5)})
    some = cohort(task, "loop", LocalWork(), privacy=SamplePrivacy())
    with pytest.raises(FedloomError, match="gradient of all samples"):
        some.gradient(some.spread(task.initial_row()))


def assignment(samples: int, batch_size: int, start: int = 0) -> Assignment:
    work = LocalWork(steps=1, batch_size=batch_size)
    return Assignment.of(0, torch.arange(start, start + samples), work, 0, 1)


@pytest.mark.parametrize("seeded", [True, False])
def test_samples_come_independently_with_their_rate(seeded):
    generators = [torch.Generator().manual_seed(3)] if seeded else []
    counts, sizes = torch.zeros(50), []
    for _ in range(800):
        step = draw_batches([assignment(50, 10)], 1, generators)
        drawn = step.positions[0][step.mask[0].bool()]
        assert len(drawn.unique()) == len(drawn)
        counts[drawn] += 1
        sizes.append(len(drawn))
    deviation = (800 * 0.2 * 0.8) ** 0.5
    assert float((counts - 160).abs().max()) < 5 * deviation
    spread = torch.tensor(sizes).double().var()
    assert float(spread) == pytest.approx(50 * 0.2 * 0.8, rel=0.3)  # a fixed size would have no variance


def test_no_drawn_sample_is_cut_off_and_padding_is_masked():
    work = [assignment(40, 20), assignment(5, 5, start=40), assignment(30, 1, start=45)]
    step = draw_batches(work, 3, [torch.Generator().manual_seed(seed) for seed in range(3)])
    assert step.positions.shape == step.mask.shape
    assert step.mask.shape[1] == int(step.mask.sum(1).max())
    assert step.positions[1][step.mask[1].bool()].tolist() == [40, 41, 42, 43, 44]  # rate 1 takes all
    for one, row in zip(work, step.positions, strict=True):
        assert set(row.tolist()) <= set(one.positions.tolist())


def test_an_empty_draw_is_all_padding():
    step = draw_batches([assignment(10_000, 0)], 1, [])
    assert step.mask.sum() == 10_000
    rare = Assignment.of(0, torch.arange(3), LocalWork(steps=1, batch_size=1), 0, 1)
    found = {int(draw_batches([rare], 1, [torch.Generator().manual_seed(s)]).mask.sum()) for s in range(50)}
    assert 0 in found
