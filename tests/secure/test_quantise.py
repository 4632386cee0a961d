"""Rows of integers: they add up within the stated error, and never wrap."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedloom.core.errors import FedloomError
from fedloom.secure.quantise import HEAD_BITS, Grid


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(max_examples=30)
@given(
    bits=st.integers(2, 16),
    limit=st.floats(1e-30, 1e30),
    clients=st.integers(1, 12),
    width=st.integers(0, 5),
    seed=st.integers(0, 9),
)
def test_a_sum_is_within_its_stated_error(bits, limit, clients, width, seed):
    grid = Grid(bits, limit, clients)
    rows = (2 * torch.rand(clients, width, generator=drawn(seed), dtype=torch.float64) - 1) * limit
    words, scaled = grid.quantise(rows, drawn(seed + 1))
    total = np.add.reduce(words, axis=0, dtype=grid.dtype)
    assert not scaled.any()
    assert words.dtype == grid.dtype
    assert ((grid.restore(total) - rows.sum(0)).abs() <= clients * grid.step * (1 + 1e-9)).all()


@settings(max_examples=30)
@given(bits=st.integers(2, 32), clients=st.integers(1, 2**32))
def test_values_at_the_edge_of_the_range_never_wrap(bits, clients):
    grid = Grid(bits, 1.5, clients)
    edge, scaled = grid.quantise(torch.tensor([[1.5, -1.5, 0.0]]), drawn())
    assert edge.view(f"int{grid.word}").tolist() == [[grid.levels, -grid.levels, 0]]
    assert not scaled.any()
    total = np.array([int(word) * clients % 2**grid.word for word in edge[0]], dtype=grid.dtype)
    assert grid.restore(total).tolist() == pytest.approx([1.5 * clients, -1.5 * clients, 0], rel=1e-12)


def test_the_word_is_the_smallest_that_holds_the_sum():
    most = (2**31 - 1) // (2**15 - 1)
    assert (Grid(16, 1.0, most).word, Grid(16, 1.0, most + 1).word) == (32, 64)
    with pytest.raises(FedloomError, match="needs more than 64"):
        Grid(32, 1.0, 2**63 // (2**31 - 1) + 1)


def test_rounding_is_right_on_average_and_has_the_stated_deviation():
    grid, draws = Grid(4, 7.0, 1), 20_000
    words, _ = grid.quantise(torch.full((draws, 1), 2.3), drawn())
    values = words.view("int32").astype(float) * grid.step
    assert set(values.ravel()) == {2.0, 3.0}
    assert values.mean() == pytest.approx(2.3, abs=5 * 0.5 / math.sqrt(draws))
    assert values.std() == pytest.approx(math.sqrt(0.3 * 0.7), abs=0.02)
    assert values.std() <= 0.5 * grid.step


def test_rounding_depends_on_the_generator_only():
    grid, rows = Grid(8, 1.0, 3), torch.rand(3, 50, generator=drawn(1))
    assert (grid.quantise(rows, drawn(2))[0] == grid.quantise(rows, drawn(2))[0]).all()
    assert (grid.quantise(rows, drawn(2))[0] != grid.quantise(rows, drawn(3))[0]).any()


@settings(max_examples=30)
@given(st.floats(1.0001, 1e30), st.floats(1e-6, 1))
def test_a_row_outside_the_range_is_scaled_as_a_whole_and_said_so(factor, limit):
    grid = Grid(24, limit, 4)
    rows = torch.tensor([[1.0, -0.5, 0.25], [1.0, -0.5, 0.25]], dtype=torch.float64) * limit
    rows[1] *= factor
    words, scaled = grid.quantise(rows, drawn())
    assert scaled.tolist() == [False, True]
    assert (grid.restore(words[1]) - rows[0]).abs().max() <= grid.step


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(value):
    with pytest.raises(FedloomError, match="not finite"):
        Grid(16, 1.0, 2).quantise(torch.tensor([[0.0, value]]), drawn())


@settings(max_examples=30)
@given(
    head=st.lists(st.lists(st.integers(0, 2**HEAD_BITS - 1), min_size=3, max_size=3), min_size=1, max_size=6),
    bits=st.sampled_from([8, 30]),
)
def test_a_head_adds_up_exactly_beside_the_values(head, bits):
    grid = Grid(bits, 1.0, len(head))
    values = np.arange(4, dtype=grid.dtype)
    total = np.add.reduce([grid.pack(numbers, values) for numbers in head], axis=0, dtype=grid.dtype)
    sums, rest = grid.unpack(total, 3)
    assert sums == [sum(numbers) for numbers in zip(*head, strict=True)]
    assert (rest == len(head) * values).all()


@settings(max_examples=30)
@given(st.integers(1, 2**30), st.sampled_from([2, 12, 32]))
def test_the_largest_head_of_the_most_clients_does_not_wrap(clients, bits):
    grid = Grid(bits, 1.0, clients)
    packed = grid.pack([2**HEAD_BITS - 1], np.zeros(0, dtype=grid.dtype))
    sums = [int(word) * clients for word in packed]
    assert all(word < 2**grid.word for word in sums)
    assert grid.unpack(np.array(sums, dtype=grid.dtype), 1)[0] == [clients * (2**HEAD_BITS - 1)]


@pytest.mark.parametrize("number", [-1, 2**HEAD_BITS])
def test_a_head_that_cannot_be_exact_is_refused(number):
    with pytest.raises(FedloomError, match="counts exactly"):
        Grid(8, 1.0, 2).pack([number], np.zeros(1, dtype=np.uint32))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ((1, 1.0, 2), "at least 2 and at most 32"),
        ((33, 1.0, 2), "at least 2 and at most 32"),
        ((8, 0.0, 2), "limit=0.0: it must be above 0"),
        ((8, math.inf, 2), "it must be a finite number"),
        ((8, math.nan, 2), "it must be a finite number"),
        ((8, 1.0, 0), "clients=0: it must be at least 1"),
    ],
)
def test_grids_that_mean_nothing_are_refused(settings, sentence):
    with pytest.raises(FedloomError, match=sentence):
        Grid(*settings)


def test_words_of_another_type_are_refused():
    grid = Grid(8, 1.0, 2)
    for wrong in (np.zeros(3, dtype=np.uint64), np.zeros((2, 3), dtype=np.uint32)):
        with pytest.raises(FedloomError, match="words of uint32"):
            grid.restore(wrong)
        with pytest.raises(FedloomError, match="words of uint32"):
            grid.pack([1], wrong)
    with pytest.raises(FedloomError, match="no head"):
        grid.unpack(np.zeros(1, dtype=np.uint32), 1)
    with pytest.raises(FedloomError, match="matrix"):
        grid.quantise(torch.zeros(3), drawn())
