"""Poisson draws: every sample with the same probability, none cut off."""

import pytest
import torch

from fedloom.core.local_work import LocalWork
from fedloom.training.batches import Assignment
from fedloom.training.dpsgd.poisson_batches import draw_batches


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
