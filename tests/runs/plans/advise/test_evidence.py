"""How sure one is: even for equals, certain for the clearly better, and right about as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from fedloom.runs.plans.advise.evidence import probability_better


def scores(values: np.ndarray) -> dict[tuple[int, str], float]:
    """A table of seeds × clients."""
    return {(s, str(c)): float(v) for s, row in enumerate(values) for c, v in enumerate(row)}


def test_a_method_against_itself_is_even() -> None:
    same = scores(np.random.default_rng(0).random((3, 20)))
    assert probability_better(same, same) == 0.5


def test_a_method_that_is_better_everywhere_is_certain() -> None:
    values = np.random.default_rng(0).random((2, 10))
    assert probability_better(scores(values + 0.1), scores(values)) == 1.0
    assert probability_better(scores(values), scores(values + 0.1)) == 0.0


def test_a_method_that_is_better_by_five_errors_is_nearly_certain() -> None:
    draw = np.random.default_rng(1)
    base, noise = draw.random((3, 50)), draw.normal(0, 0.05, (3, 50))
    assert probability_better(scores(base + 0.05 + noise), scores(base)) > 0.99


def test_the_order_of_the_two_does_not_matter() -> None:
    draw = np.random.default_rng(2)
    one, other = scores(draw.random((2, 15))), scores(draw.random((2, 15)))
    assert probability_better(one, other) + probability_better(other, one) == pytest.approx(1.0)


def test_the_probability_is_that_of_the_normal_distribution() -> None:
    """One seed, many clients: the bootstrap of a mean is normal with the error of the mean."""
    draw = np.random.default_rng(3)
    difference = draw.normal(0, 1, 400)
    difference += 0.05 - difference.mean()
    z = 0.05 / (difference.std() / 20)
    from math import erf, sqrt

    expected = 0.5 * (1 + erf(z / sqrt(2)))
    assert probability_better(scores(difference[None]), scores(np.zeros((1, 400)))) == pytest.approx(expected, abs=0.03)


def test_methods_that_are_alike_are_called_different_about_as_often_as_chance() -> None:
    draw = np.random.default_rng(4)
    found = [
        probability_better(scores(draw.normal(size=(1, 30))), scores(draw.normal(size=(1, 30))), draws=400)
        for _ in range(200)
    ]
    assert 0.02 < np.mean(np.array(found) > 0.95) < 0.10
    assert 0.4 < np.mean(found) < 0.6


def test_seeds_that_disagree_make_it_less_sure_than_many_clients_do() -> None:
    difference = np.full((2, 200), 0.1)
    difference[1] = -0.05
    assert 0.6 < probability_better(scores(difference), scores(np.zeros((2, 200)))) < 0.9
    assert probability_better(scores(difference[:1]), scores(np.zeros((1, 200)))) == 1.0


def test_only_what_both_have_is_compared() -> None:
    one = {(0, "a"): 1.0, (0, "b"): 0.0, (1, "c"): 5.0}
    other = {(0, "a"): 0.0, (0, "d"): 9.0}
    assert probability_better(one, other) == 1.0
    assert probability_better(one, {(7, "z"): 1.0}) == 0.5


def test_clients_of_one_seed_only_are_compared_within_it() -> None:
    one = {(s, f"{s}/{c}"): 1.0 for s in range(3) for c in range(4)}
    other = {(s, f"{s}/{c}"): 0.5 for s in range(3) for c in range(4)}
    assert probability_better(one, other) == 1.0


def test_the_same_scores_give_the_same_probability_twice() -> None:
    draw = np.random.default_rng(5)
    one, other = scores(draw.random((2, 9))), scores(draw.random((2, 9)))
    assert probability_better(one, other) == probability_better(dict(reversed(one.items())), other)
