"""Random mask: the projection on it, and why the mean is shorter."""

import pytest
import torch
from hypothesis import given, settings

from fedloom.channel.randommask import RandomMask
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates


@settings(deadline=None, max_examples=60)
@given(updates())
def test_it_is_a_projection(rows):
    once = send(RandomMask(0.3), rows)
    assert torch.equal(send(RandomMask(0.3), once), once)  # the same clients and round: the same mask
    assert bool(((once == rows) | (once == 0)).all())


def test_the_mean_is_the_share_of_the_update():
    found = send(RandomMask(0.25), torch.ones(4000, 20), MemorySender(range(4000)))
    assert (found.mean(0) - 0.25).abs().max() < 4.5 * (0.25 * 0.75 / 4000) ** 0.5


def test_an_impossible_fraction_is_refused():
    with pytest.raises(FedloomError, match="above 0 and at most 1"):
        RandomMask(0.0)
