"""Scaled signs: by hand, the paper's error, one bit each."""

import pytest
import torch
from hypothesis import given, settings

from fedloom.channel.sign import Sign
from support.senders import MemorySender, send, updates


def test_signs_times_the_mean_magnitude():
    assert send(Sign(), torch.tensor([[1.0, -3.0, 0.0, 4.0]])).tolist() == [[2.0, -2.0, 2.0, 2.0]]


@settings(deadline=None, max_examples=60)
@given(updates())
def test_the_error_is_the_papers(rows):
    found, exact = send(Sign(), rows).double(), rows.double()
    expected = exact.square().sum(1) - exact.abs().sum(1).square() / rows.shape[1]
    room = 1e-5 * exact.square().sum(1) + 1e-80
    assert bool((((found - exact).square().sum(1) - expected).abs() <= room).all())


def test_an_entry_takes_a_bit():
    words, extras = Sign().encode(torch.randn(2, 801), MemorySender())
    assert (words.nbytes, extras["scale"].nbytes) == (2 * 101, 2 * 4)


def test_a_negative_scale_is_refused():
    with pytest.raises(ValueError, match="negative"):
        Sign().decode(torch.zeros(1, 1, dtype=torch.uint8), {"scale": -torch.ones(1, 1)}, 8)
