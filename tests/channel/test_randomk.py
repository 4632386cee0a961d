"""Random-k: the seed stands for the positions, and the scaled form is unbiased."""

import pytest
import torch
from hypothesis import given, settings

from fedloom.channel.randomk import RandomK
from fedloom.channel.shared_randomness import random_positions
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates


@settings(deadline=None, max_examples=60)
@given(updates())
def test_entries_arrive_exactly_or_as_zero(rows):
    found, step = send(RandomK(0.3), rows), RandomK(0.3)
    assert bool(((found == rows) | (found == 0)).all())
    values, extras = step.encode(rows, MemorySender())
    positions = random_positions(extras["seed"], rows.shape[1], step.width(rows.shape[1]))
    assert torch.equal(values, rows.gather(1, positions))
    assert torch.equal(found.gather(1, positions), values)


def test_only_values_and_a_seed_are_sent():
    values, extras = RandomK(0.1).encode(torch.randn(3, 200), MemorySender())
    assert values.nbytes == 3 * 20 * 4
    assert {name: tensor.nbytes for name, tensor in extras.items()} == {"seed": 3 * 8}


def test_without_error_feedback_the_mean_is_the_update_and_the_variance_is_the_papers():
    row = torch.linspace(-1, 2, 20)
    found = send(RandomK(0.25, error_feedback=False), row.expand(4000, -1), MemorySender(range(4000)))
    spread = (20 / 5 - 1) ** 0.5 * row.abs() / 4000**0.5
    assert bool(((found.mean(0) - row).abs() <= 4.5 * spread + 1e-6).all())
    assert (found - row).square().sum(1).mean() == pytest.approx(3 * float(row.square().sum()), rel=0.05)


def test_another_round_sends_other_entries():
    sender, rows = MemorySender(), torch.ones(1, 1000)
    first = send(RandomK(error_feedback=False), rows, sender)
    sender.round = 2
    assert not torch.equal(first, send(RandomK(error_feedback=False), rows, sender))


@pytest.mark.parametrize("fraction", [0.0, 1.1])
def test_an_impossible_fraction_is_refused(fraction):
    with pytest.raises(FedloomError, match="above 0 and at most 1"):
        RandomK(fraction)
