"""Sketched updates: lossless at 1, unbiased below, with the stated variance."""

import pytest
import torch
from hypothesis import given, settings
from scipy.linalg import hadamard

import fedloom as fl
from fedloom.channel.sketch import BLOCK, Sketch, rotated_width, walsh_hadamard
from fedloom.core.errors import FedloomError
from support.senders import MemorySender, send, updates


@settings(deadline=None, max_examples=60)
@given(updates())
@pytest.mark.slow
def test_with_all_entries_nothing_is_lost_but_rounding(rows):
    room = 1e-5 * rows.double().norm(dim=1, keepdim=True) + 1e-44
    assert bool(((send(Sketch(1.0), rows).double() - rows.double()).abs() <= room).all())


def test_rows_longer_than_a_block_are_filled_up_to_whole_blocks():
    assert [rotated_width(width) for width in (1, 3, 4096, 4097)] == [1, 4, BLOCK, 2 * BLOCK]
    rows = torch.randn(2, BLOCK + 5)
    assert torch.allclose(send(Sketch(1.0), rows), rows, atol=1e-5)


@pytest.mark.slow
def test_the_mean_is_the_update_and_the_variance_is_within_its_bound():
    row = torch.zeros(20)
    row[3], row[4] = 5.0, -1.0
    found = send(Sketch(0.25), row.expand(4000, -1), MemorySender(range(4000)))
    error = (found - row).square()
    assert bool(((found.mean(0) - row).abs() <= 4.5 * (error.mean(0) / 4000).sqrt()).all())
    assert error.sum(1).mean() <= (32 / 8 - 1) * float(row.square().sum()) * 1.05


def test_one_large_entry_is_never_lost_as_it_is_with_random_entries():
    rows = torch.zeros(50, 4096)
    rows[:, 7] = 100.0
    found = send(Sketch(0.25), rows, MemorySender(range(50)))[:, 7]
    lost = send(fl.RandomK(0.25, error_feedback=False), rows, MemorySender(range(50)))[:, 7]
    assert (found - 100).abs().max() < 1
    assert set(lost.tolist()) == {0.0, 400.0}


def test_rotated_entries_need_fewer_bits():
    rows = torch.zeros(1, 4096)
    rows[0, :4] = 100.0
    rows[0, 4:] = torch.randn(4092, generator=torch.Generator().manual_seed(0))
    errors = []
    for steps in ((fl.QSGD(4, chunk=4096),), (Sketch(1.0), fl.QSGD(4, chunk=4096))):
        encoded = rows
        for step in steps:
            encoded, extras = step.encode(encoded, MemorySender())
        decoded = steps[-1].decode(encoded, extras, 4096)
        if len(steps) == 2:
            decoded = steps[0].decode(decoded, {"seed": steps[0].encode(rows, MemorySender())[1]["seed"]}, 4096)
        errors.append(float((decoded - rows).norm()))
    assert errors[1] < errors[0] / 3


def test_an_impossible_fraction_is_refused():
    with pytest.raises(FedloomError, match="above 0 and at most 1"):
        Sketch(0.0)


@pytest.mark.parametrize("size", [1, 2, 8, 256])
def test_it_is_the_product_with_hadamards_matrix_and_its_own_inverse(size):
    vectors = torch.randn(3, 2, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = vectors @ torch.from_numpy(hadamard(size)).double() / size**0.5
    assert torch.allclose(walsh_hadamard(vectors), expected)
    assert torch.allclose(walsh_hadamard(walsh_hadamard(vectors)), vectors)
