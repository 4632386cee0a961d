"""The geometric median: known points, optimality, and its breakdown point."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedloom.aggregation.geometric_median import GeometricMedian
from fedloom.core.errors import FedloomError
from support.aggregations import aggregate, honest_rows

EXACT = GeometricMedian(iterations=5000, tolerance=0.0)


def test_on_a_line_it_is_the_median():
    assert float(aggregate(EXACT, [[0.0], [1.0], [50.0]])) == pytest.approx(1.0, abs=1e-3)


def test_in_a_triangle_it_is_fermats_point():
    # An equilateral triangle's is its centre; with an angle of 120 degrees or more it is that corner.
    triangle = [[0.0, 0.0], [2.0, 0.0], [1.0, math.sqrt(3)]]
    assert aggregate(EXACT, triangle).tolist() == pytest.approx([1.0, 1 / math.sqrt(3)], abs=1e-4)
    flat = [[0.0, 0.0], [4.0, 0.3], [-4.0, 0.3]]
    assert aggregate(EXACT, flat).tolist() == pytest.approx([0.0, 0.0], abs=1e-2)


def test_the_corners_of_a_square_meet_in_its_middle():
    assert aggregate(EXACT, [[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]).tolist() == pytest.approx([1.0, 1.0])


@given(st.integers(3, 9), st.integers(1, 6), st.integers(0, 1000))
def test_no_point_near_it_has_a_smaller_sum_of_distances(clients, width, seed):
    rows = honest_rows(clients, width, seed)
    found = aggregate(GeometricMedian(), rows)
    best = float((rows - found).norm(dim=1).sum())
    for step in honest_rows(20, width, seed + 1) * 0.05:
        assert best <= float((rows - found - step).norm(dim=1).sum()) * (1 + 1e-4)


def test_a_minority_cannot_lead_it_away_however_far_it_goes():
    honest = honest_rows(5, 3, 0)
    near, far = (aggregate(EXACT, torch.cat([honest, torch.full((4, 3), v)])) for v in (1e2, 1e5))
    assert near.norm() < 10
    assert far.norm() < 10


@pytest.mark.parametrize("size", [1e4, 1e8, 1e20, 3e38])
def test_a_row_pulls_no_harder_for_being_larger(size):
    honest = honest_rows(10, 5, 0)
    near, far = (aggregate(GeometricMedian(), torch.cat([honest, torch.full((1, 5), v)])) for v in (1e3, size))
    assert float((near - far).norm()) < 1e-2


def test_it_leaves_a_row_at_which_it_starts_but_which_is_not_the_median():
    # The corner of the right angle is the coordinate-wise median; Fermat's point is on the diagonal.
    place = (3 - math.sqrt(3)) / 6
    assert aggregate(EXACT, [[-1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]).tolist() == pytest.approx([-place, place], abs=1e-4)


def test_a_point_where_half_of_the_rows_lie_is_the_median():
    rows = [[2.0, 1.0]] * 3 + [[5.0, 5.0], [3e38, 0.0], [0.0, -1e20]]
    assert aggregate(GeometricMedian(), rows).tolist() == [2.0, 1.0]


def test_rows_that_are_all_alike_are_their_own_median():
    assert aggregate(GeometricMedian(), [[3.0, 4.0]] * 4).tolist() == [3.0, 4.0]


@pytest.mark.parametrize("settings", [{"iterations": 0}, {"tolerance": -1.0}, {"smoothing": 0.0}])
def test_impossible_settings_are_refused(settings):
    with pytest.raises(FedloomError, match=r"it must be (above 0|at least [01])"):
        GeometricMedian(**settings)
