"""The lower bound of epsilon: below the truth for mechanisms that are known, and above zero for those that tell."""

import math

import numpy as np
import pytest

from fedloom.audits.lower_bound import empirical_epsilon


def epsilon_lower_bound(there, without, delta):
    return empirical_epsilon(there, without, delta).least


def gaussian(shift: float, trials: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(shift, 1, trials), random.normal(0, 1, trials)


def test_two_that_are_the_same_are_not_told_apart():
    bounds = [epsilon_lower_bound(*gaussian(0.0, 2000, seed), 1e-5) for seed in range(40)]
    assert sum(bound > 0 for bound in bounds) <= 5  # one of twenty, with the luck of forty


def test_one_that_always_tells_is_found_as_far_as_so_many_trials_can_say():
    """Of 1,000 judged trials none is wrong: at most 3.7 in 1,000 are, and the bound is the logarithm of that."""
    bound = epsilon_lower_bound(np.ones(2000), np.zeros(2000), 0.0)
    assert bound == pytest.approx(-math.log(3.68e-3), abs=0.01)


@pytest.mark.parametrize("flip", [0.1, 0.25, 0.4])
def test_randomised_response_is_bounded_by_its_own_epsilon(flip):
    """It answers with the truth but for a share of flips: epsilon is log((1 - flip) / flip), and the bound is close."""
    random, truth = np.random.default_rng(1), math.log((1 - flip) / flip)
    there = (random.random(20_000) > flip).astype(float)
    without = (random.random(20_000) < flip).astype(float)
    assert 0.85 * truth - 0.05 < epsilon_lower_bound(there, without, 0.0) <= truth


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_gaussian_noise_is_bounded_by_what_accounting_says(shift):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    from fedloom.privacy.accounting import epsilon_after
    from fedloom.privacy.sampling import EveryClient

    stated = epsilon_after(EveryClient(), 1 / shift, 1, 0.01)
    bound = epsilon_lower_bound(*gaussian(shift, 10_000, 3), 0.01)
    assert 0.4 * stated < bound <= stated


def test_the_interval_is_around_what_was_seen_and_has_the_attackers_true_epsilon():
    """Randomised response: every threshold between 0 and 1 is the same attacker, whose epsilon is known."""
    flip, missed = 0.25, 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        there, without = (random.random(2000) > flip).astype(float), (random.random(2000) < flip).astype(float)
        found = empirical_epsilon(there, without, 0.0)
        assert found.least < found.seen < found.most
        missed += not found.least <= math.log((1 - flip) / flip) <= found.most
    assert missed <= 6  # each end may fail once in twenty


def test_an_attacker_who_is_never_wrong_has_no_upper_end():
    found = empirical_epsilon(np.ones(200), np.zeros(200), 0.0)
    assert found.seen == found.most == math.inf
    assert found.least < 5
