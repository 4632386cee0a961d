"""Trade-off curves: known ones have their closed forms, and the band of scores holds the true one."""

import math

import numpy as np
import pytest

from fedloom.attacks.measures.trade_off import curve_of_profile, gaussian_curve, gaussian_epsilon, trade_off

RATES = np.linspace(0.001, 0.999, 500)


def gaussian_delta(mu: float, epsilon: float) -> float:
    def phi(x):
        return math.erfc(-x / 2**0.5) / 2

    return phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def test_an_epsilon_of_zero_leaves_guesses_at_random():
    assert curve_of_profile([(0.0, 0.0)])(RATES) == pytest.approx(1 - RATES)
    assert gaussian_curve(0.0)(RATES) == pytest.approx(1 - RATES)


@pytest.mark.parametrize("curve", [gaussian_curve(1.3), curve_of_profile([(1.0, 0.05), (2.0, 0.01)])])
def test_a_curve_is_its_own_inverse_and_convex(curve):
    assert curve(curve(RATES)) == pytest.approx(np.where(curve(RATES) > 0, RATES, curve(np.zeros(1))[0]), abs=1e-9)
    assert (np.diff(curve(RATES), 2) >= -1e-12).all()


def test_all_pairs_of_gaussian_noise_together_are_its_curve_and_no_pair_is_above_it():
    pairs = [(epsilon, gaussian_delta(1.0, epsilon)) for epsilon in np.linspace(0, 6, 200)]
    exact = gaussian_curve(1.0)(RATES)
    assert curve_of_profile(pairs)(RATES) == pytest.approx(exact, abs=1e-3)
    for pair in pairs[::20]:
        assert (curve_of_profile([pair])(RATES) <= exact + 1e-12).all()


def test_an_infinite_epsilon_promises_nothing():
    assert curve_of_profile([(math.inf, 0.0)])(RATES) == pytest.approx(np.zeros(len(RATES)))


@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0, 30.0])
def test_the_epsilon_of_gaussian_noise_solves_for_its_delta(mu):
    epsilon = gaussian_epsilon(mu, 1e-5)
    assert gaussian_delta(mu, epsilon) == pytest.approx(1e-5, rel=1e-3)
    assert gaussian_epsilon(0.0, 1e-5) == 0.0


def test_the_epsilon_of_gaussian_noise_is_the_accountants():
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    from fedloom.privacy.accounting import epsilon_after
    from fedloom.privacy.sampling import EveryClient

    assert gaussian_epsilon(0.5, 1e-5) == pytest.approx(epsilon_after(EveryClient(), 2.0, 1, 1e-5), rel=1e-3)


def test_the_band_has_the_true_curve_at_all_of_its_points_as_often_as_it_says():
    missed, mu = 0, 1.0
    for seed in range(200):
        random = np.random.default_rng(seed)
        found = trade_off(random.normal(mu, 1, 300), random.normal(0, 1, 300), confidence=0.9)
        missed += found.exceeds(gaussian_curve(mu)) or found.least_mu > mu
    assert missed <= 20


def test_the_band_of_whole_numbers_with_many_ties_holds_too():
    """Randomised response with a flip of 0.3: its curve is that of epsilon log(7 / 3)."""
    true, missed = curve_of_profile([(math.log(7 / 3), 0.0)]), 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        there, without = (random.random(200) > 0.3).astype(float), (random.random(200) < 0.3).astype(float)
        missed += trade_off(there, without, confidence=0.9).exceeds(true)
    assert missed <= 20


def test_scores_that_tell_exceed_what_less_noise_tells():
    random = np.random.default_rng(0)
    found = trade_off(random.normal(3, 1, 1000), random.normal(0, 1, 1000))
    assert found.exceeds(gaussian_curve(2.0))
    assert 2.0 < found.least_mu <= 3.0
    for point in found.points:
        assert point.accused <= point.most_accused
        assert point.least_missed <= point.missed <= point.most_missed
