"""QSGD: levels by hand, its bound, its mean and its variance, and the bits that arrive."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.channel.qsgd import QSGD
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates


def test_levels_are_sent_exactly():
    row = torch.tensor([[3.0, -3.0, 0.0, 1.0, -2.0]])
    assert torch.allclose(send(QSGD(bits=3), row), row)  # s = 3: multiples of 3/3
    assert send(QSGD(bits=1), torch.tensor([[2.0, -2.0, 2.0]])).tolist() == [[2.0, -2.0, 2.0]]
    assert send(QSGD(bits=4), torch.zeros(1, 9)).tolist() == [[0.0] * 9]


@settings(deadline=None, max_examples=60)
@given(updates(), st.integers(1, 8), st.sampled_from([1, 7, 512]))
def test_no_entry_is_off_by_more_than_a_level_of_its_chunk(rows, bits, chunk):
    found, step = send(QSGD(bits, chunk), rows), QSGD(bits, chunk)
    for start in range(0, rows.shape[1], chunk):
        piece = rows[:, start : start + chunk].double()
        largest = piece.abs().amax(1, keepdim=True)
        off = (found[:, start : start + chunk].double() - piece).abs()
        assert bool((off <= largest / step.levels * (1 + 1e-5) + 1e-45).all())


@pytest.mark.parametrize("bits", [1, 2, 5])
def test_the_mean_is_the_update_and_the_variance_is_within_its_bound(bits):
    row, step = torch.linspace(-1, 0.9, 20), QSGD(bits)
    found = send(step, row.expand(4000, -1), MemorySender(range(4000)))
    assert (found.mean(0) - row).abs().max() <= 4.5 / (2 * step.levels) / 4000**0.5 + 1e-6
    assert (found - row).square().sum(1).mean() <= 20 / (4 * step.levels**2) * 1.02


def test_an_entry_takes_its_bits_and_a_chunk_four_bytes():
    words, extras = QSGD(bits=3, chunk=100).encode(torch.randn(2, 1000), MemorySender())
    assert words.dtype == torch.uint8
    assert (words.nbytes, extras["norms"].nbytes) == (2 * 3 * 1000 // 8, 2 * 10 * 4)


def test_what_no_client_sends_is_refused():
    step, norms = QSGD(bits=2), torch.ones(1, 1)
    with pytest.raises(ValueError, match="above the highest"):
        step.decode(torch.tensor([[255, 255]], dtype=torch.uint8), {"norms": norms}, 8)
    with pytest.raises(ValueError, match="negative"):
        step.decode(torch.zeros(1, 2, dtype=torch.uint8), {"norms": -norms}, 8)
    with pytest.raises(ValueError, match="after the last entry"):
        step.decode(torch.tensor([[0, 64]], dtype=torch.uint8), {"norms": norms}, 7)


@pytest.mark.parametrize("settings", [{"bits": 0}, {"bits": 9}, {"chunk": 0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(FedloomError, match=r"=[09]: it must be at least 1"):
        QSGD(**settings)
