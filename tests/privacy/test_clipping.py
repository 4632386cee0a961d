"""Clipped rows are never longer than the bound that accounting counts on."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.privacy.clipping import clip_rows, norms_of


def exact_norm(row: torch.Tensor) -> float:
    return math.sqrt(math.fsum(float(value) ** 2 for value in row.double()))


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=1, max_size=8), st.floats(1e-6, 1e6))
def test_no_row_is_longer_than_the_bound(values, most):
    row = torch.tensor([values], dtype=torch.float32)
    clipped = clip_rows(row, most)
    assert exact_norm(clipped[0]) <= most * (1 + 1e-12)
    if exact_norm(row[0]) <= most:
        assert torch.equal(clipped, row)


def test_the_norm_of_many_numbers_is_that_of_double_precision():
    """In single precision the norm of so many equal numbers is too small, and the clipped row too long."""
    row = torch.full((1, 20_000_000), 0.1)
    assert float(norms_of(row)) == pytest.approx(float(torch.tensor(0.1)) * math.sqrt(20_000_000), rel=1e-9)
    assert float(norms_of(clip_rows(row, 1.0))) <= 1.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_zero_and_the_others_stay(wrong):
    rows = torch.tensor([[0.3, wrong], [0.3, 0.4]])
    assert clip_rows(rows, 1.0).tolist() == [[0.0, 0.0], rows[1].tolist()]
