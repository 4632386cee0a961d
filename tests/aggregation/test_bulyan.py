"""Bulyan by hand, and its two bounds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.aggregation.bulyan import Bulyan
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows


def test_seven_clients_by_hand():
    # f = 1: Krum chooses 7 - 2 = 5 rows. The row at 90 is far from everybody and is among the two left over.
    # Scores with 7 - 1 - 2 = 4 neighbours: 3 is first, and so on inwards out: 1..5 or 2..6 remain, never 90.
    # Of the chosen, the 7 - 4 = 3 values closest to their median are averaged.
    rows = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [90.0]]
    assert float(aggregate(Bulyan(share=0.15), rows)) in (3.0, 4.0)


def test_without_hostile_clients_it_is_the_mean():
    rows = honest_rows(5, 6, 0)
    assert torch.allclose(aggregate(Bulyan(share=0.0), rows), rows.mean(0), atol=1e-6)


def test_one_large_coordinate_of_a_close_row_does_not_get_through():
    """Krum is led astray by a row that is close in all but one of many coordinates: Bulyan's second step is not."""
    rows = honest_rows(10, 50, 1)
    rows[9] = rows[:9].mean(0)
    rows[9, 7] = 8.0
    found = aggregate(Bulyan(share=0.1), rows)
    assert bool((found <= rows[:9].amax(0)).all())
    assert bool((found >= rows[:9].amin(0)).all())


@given(st.floats(-1e4, 1e4).filter(lambda value: abs(value) > 20), st.integers(0, 500))
def test_hostile_rows_far_away_never_leave_the_range_of_the_honest(value, seed):
    honest = honest_rows(9, 5, seed)
    found = aggregate(Bulyan(share=2 / 11), torch.cat([honest, torch.full((2, 5), value)]))
    assert bool((found >= honest.amin(0) - 1e-5).all())
    assert bool((found <= honest.amax(0) + 1e-5).all())


def test_it_needs_four_times_the_hostile_and_three():
    assert Bulyan(share=0.1).least_clients == 10
    assert Bulyan(share=0.15).least_clients == 7
    with pytest.raises(FedloomError, match=r"below 0\.25"):
        Bulyan(share=0.25)
