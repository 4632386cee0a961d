"""Randomness from a seed: fixed for ever, uniform, and of its own for every use."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from fedloom.channel.shared_randomness import (
    draw_seeds,
    random_matrix,
    random_positions,
    random_signs,
    read_seeds,
    share_of,
)
from support.senders import MemorySender


def test_what_a_seed_means_never_changes():
    seeds = torch.tensor([[1], [2**63 - 2]])
    words = [np.random.PCG64((seed, 0)).random_raw(5).tolist() for seed in seeds.flatten().tolist()]
    expected = [sorted(sorted(range(5), key=one.__getitem__)[:2]) for one in words]
    assert random_positions(seeds, 5, 2).tolist() == expected == [[2, 4], [1, 2]]
    assert random_signs(seeds[:1], 6).tolist() == [[-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]]


def test_every_position_and_both_signs_are_equally_likely():
    seeds = torch.arange(4000).unsqueeze(1)
    positions, signs = random_positions(seeds, 9, 3), random_signs(seeds, 9)
    assert bool((positions.diff(dim=1) > 0).all())
    assert chisquare(positions.flatten().bincount(minlength=9)).pvalue > 0.001
    assert signs.mean(0).abs().max() < 4 / 4000**0.5
    chosen = torch.zeros(4000, 9).scatter(1, positions, 1.0)
    assert (chosen - 1 / 3).mul(signs).mean(0).abs().max() < 4 * (2 / 9) ** 0.5 / 4000**0.5  # independent of each other


def test_each_client_round_and_matrix_has_its_own():
    sender = MemorySender(range(3))
    first, sender.round = draw_seeds(sender, 3), 2
    assert len({*first.flatten().tolist(), *draw_seeds(sender, 3).flatten().tolist()}) == 6
    assert torch.equal(draw_seeds(MemorySender([2]), 1), first[2:])
    one, other = random_matrix(7, 0, 30, 20), random_matrix(7, 1, 30, 20)
    assert -1 <= one.min() < -0.9 < 0.9 < one.max() <= 1
    assert abs(float((one * other).mean())) < 0.06


@pytest.mark.parametrize(("extras", "said"), [({}, "seed is missing"), ({"seed": torch.tensor([[-1]])}, "negative")])
def test_seeds_that_no_client_sends_are_refused(extras, said):
    with pytest.raises(ValueError, match=said):
        read_seeds(extras, 1)


def test_a_share_is_at_least_one_entry_and_all_of_them_at_most():
    assert [share_of(fraction, 10) for fraction in (0.01, 0.1, 0.3, 0.31, 1.0)] == [1, 1, 3, 4, 10]
