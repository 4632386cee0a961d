"""Guesses of coins in one run: both bounds hold where the truth is known, and are as close as they can be."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from fedloom.attacks.measures.trade_off import curve_of_profile, gaussian_curve, gaussian_epsilon
from fedloom.audits.one_run_bound import (
    CoinGuesses,
    chance_if_private,
    guess_coins,
    last_where,
    least_epsilon,
    rules_out,
)


def least_chance(guesses: CoinGuesses, curve) -> float:
    """The largest chance that a curve leaves so many right guesses."""
    return last_where(lambda chance: not rules_out(guesses, curve, chance), 0.0, 1.0, steps=40)


def test_the_highest_scores_are_guessed_in_and_the_lowest_out():
    scores, coins = np.arange(20.0), (np.arange(20) >= 8).astype(float)
    assert guess_coins(scores, coins) == [CoinGuesses(10, 10, 20), CoinGuesses(4, 4, 20), CoinGuesses(2, 2, 20)]
    wrong = guess_coins(-scores, coins)
    assert wrong == [CoinGuesses(0, 10, 20), CoinGuesses(0, 4, 20), CoinGuesses(0, 2, 20)]


def test_of_pure_privacy_the_chance_is_that_of_randomised_response():
    guesses = CoinGuesses(80, 100, 100)
    assert chance_if_private(guesses, 1.0, 0.0) == pytest.approx(binom.sf(79, 100, math.e / (1 + math.e)))
    assert chance_if_private(guesses, 0.0, 0.0) == pytest.approx(binom.sf(79, 100, 0.5))


def test_a_delta_adds_what_the_formula_says_by_hand():
    """Two guesses of two canaries, both right, epsilon 0: 1/4 + 2 * 2 * delta * max(1/2 / 1, 3/4 / 2)."""
    assert chance_if_private(CoinGuesses(2, 2, 2), 0.0, 0.01) == pytest.approx(0.25 + 4 * 0.01 * 0.5)


@pytest.mark.parametrize("pairs", [[(1.0, 0.0)], [(0.5, 0.01), (1.0, 0.002)], [(0.0, 0.1)]])
@pytest.mark.parametrize(("right", "guessed", "canaries"), [(6, 6, 6), (6, 8, 8), (5, 6, 12)])
def test_the_recursion_is_the_optimum_of_its_linear_programme(pairs, right, guessed, canaries):
    """Of all distributions of right guesses that keep every inequality, none has a larger tail than it leaves."""
    counts = np.arange(guessed + 1)
    lines = [line for e, d in pairs for line in ((math.exp(e), d), (math.exp(-e), 1 - (1 - d) * math.exp(-e)))]
    rows, bounds = [], []
    for first, (slope, height) in itertools.product(range(1, guessed + 1), lines):
        right_part = np.where(counts >= first, counts, 0) / canaries
        wrong_part = np.where(counts >= first - 1, guessed - counts, 0) / canaries
        rows.append(right_part - slope * wrong_part)  # right <= 1 - f(wrong) <= height + slope * wrong
        bounds.append(height)
    tail = (counts >= right).astype(float)
    solved = linprog(-tail, A_ub=rows, b_ub=bounds, A_eq=[np.ones(guessed + 1)], b_eq=[1.0])
    ours = least_chance(CoinGuesses(right, guessed, canaries), curve_of_profile(pairs))
    assert ours == pytest.approx(-solved.fun, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomised_response_is_ruled_out_no_more_often_than_promised(epsilon):
    """It is the worst that pure privacy allows, so that the bound of epsilon fails almost as often as it may."""
    rate, curve = 1 / (1 + math.exp(-epsilon)), curve_of_profile([(epsilon, 0.0)])
    draws = [CoinGuesses(int(right), 100, 100) for right in np.random.default_rng(0).binomial(100, rate, 1000)]
    chances = {some: chance_if_private(some, epsilon, 0.0) for some in set(draws)}
    beaten = {some: rules_out(some, curve, 0.05) for some in set(draws)}
    assert 0.02 <= sum(chances[some] < 0.05 for some in draws) / 1000 <= 0.065
    assert sum(beaten[some] for some in draws) / 1000 <= 0.065


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_gaussian_noise_is_ruled_out_no_more_often_than_promised(mu):
    curve, delta = gaussian_curve(mu), 1e-3
    epsilon = gaussian_epsilon(mu, delta)

    def fails(random):
        coins = random.integers(0, 2, 60).astype(float)
        guesses = guess_coins(random.normal(size=60) + mu * coins, coins)
        by_curve = any(rules_out(some, curve, 0.05 / len(guesses)) for some in guesses)
        return by_curve or least_epsilon(guesses, delta, 0.95) > epsilon

    random = np.random.default_rng(0)
    assert sum(fails(random) for _ in range(60)) <= 6


def test_canaries_that_all_point_one_way_and_total_leaks_of_probability_delta_are_within_both_bounds():
    """Dependence is what one run adds: all guesses are right together, or all of them hang on one number."""
    random, failed, delta, epsilon = np.random.default_rng(0), np.zeros(4), 0.03, 0.5
    pair, gauss = curve_of_profile([(epsilon, delta)]), gaussian_curve(1.0)
    for _ in range(400):
        everything = random.random() < delta
        told = CoinGuesses(40 if everything else int(random.binomial(40, 1 / (1 + math.exp(-epsilon)))), 40, 40)
        coins = random.integers(0, 2, 20)
        summed = (coins - 0.5).sum() + random.normal()
        one_way = CoinGuesses(int(coins.sum() if summed > 0 else (1 - coins).sum()), 20, 20)
        failed += [
            chance_if_private(told, epsilon, delta) < 0.05,
            rules_out(told, pair, 0.05),
            chance_if_private(one_way, gaussian_epsilon(1.0, 1e-3), 1e-3) < 0.05,
            rules_out(one_way, gauss, 0.05),
        ]
    assert (failed / 400 <= 0.075).all()


def test_more_right_guesses_rule_out_more_and_more_canaries_that_are_left_open_less():
    found = [least_epsilon([CoinGuesses(right, 100, 200)], 1e-5, 0.95) for right in (50, 70, 80, 90, 100)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert len(set(found)) == 5
    curve = gaussian_curve(0.5)
    chances = [least_chance(CoinGuesses(right, 100, 200), curve) for right in (70, 80, 90, 100)]
    assert chances == sorted(chances, reverse=True)
    assert least_chance(CoinGuesses(80, 100, 400), curve) >= least_chance(CoinGuesses(80, 100, 200), curve)


def test_an_attacker_who_is_always_right_is_bounded_by_the_number_of_guesses():
    """With 100 of 100: ``q ** 100 = 0.05`` is the largest rate of right guesses that is ruled out."""
    rate = 0.05 ** (1 / 100)
    bound = least_epsilon([CoinGuesses(100, 100, 100)], 0.0, 0.95)
    assert bound == pytest.approx(math.log(rate / (1 - rate)), abs=1e-6)
