"""Bulyan by hand, and its two bounds."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.aggregation.bulyan import Bulyan
from fedloom.aggregation.krum import squared_distances
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows


def test_seven_clients_by_hand():
    # f = 1: Krum chooses 7 - 2 = 5 rows. The row at 90 is far from everybody and is among the two left over.
    # Scores with 7 - 1 - 2 = 4 neighbours: 3 and 4 have 1 + 1 + 4 + 4 = 10, and 3 comes first. Then, with 3 neighbours,
    # 4 (1 + 4 + 4), with 2 neighbours 5 (1 + 9), with 1 neighbour 1 (as close to 2 as 2 to 1), and at last 2 of the
    # rest 2, 6 and 90. Of 1 to 5 the 7 - 4 = 3 values closest to their median, 3, are averaged.
    rows = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [90.0]]
    assert float(aggregate(Bulyan(share=0.15), rows)) == 3.0


@given(st.integers(0, 300))
def test_of_equal_scores_the_first_client_counts(seed):
    """Of the last three rows that are left, two are each other's nearest: the first of them is chosen."""
    rows, rule = honest_rows(11, 20, seed) + 1, Bulyan(share=0.1)
    exact = (rows.double()[:, None] - rows.double()).square().sum(2)
    left, chosen = list(range(11)), []
    for _ in range(9):
        count = max(1, len(left) - 3)
        scores = [sorted(float(exact[one, other]) for other in left if other != one)[:count] for one in left]
        sums = [sum(some) for some in scores]
        first = next(place for place, value in enumerate(sums) if value <= min(sums) * (1 + 1e-12))
        chosen.append(left.pop(first))
    assert rule._choose(squared_distances(rows), 1).tolist() == sorted(chosen)


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
