"""Privacy as one run shows it: how many of its canaries' coins an attacker may guess, at most.

Of m canaries each was in the run or not by a fair coin of its own; an attacker who sees the run guesses r of the coins
and leaves the others open, and v guesses are right. Two bounds of ``P[right >= v]``, both for any attacker, any
canaries and any mechanism, however canaries influence each other:

* What is (epsilon, delta)-private: ``P[B >= v] + 2 m delta max_i P[v > B >= v - i] / i`` with B binomial of r guesses
  that are right with ``exp(epsilon) / (1 + exp(epsilon))``. Steinke, Nasr and Jagielski, Privacy Auditing with One (1)
  Training Run, NeurIPS 2023, https://arxiv.org/abs/2305.08846.
* What has a trade-off curve f: let ``right_i = sum_{l >= i} (l / m) P[l right]`` and ``wrong_i`` the same of ``r - l``.
  With one coin the other way round a right guess is a wrong one, and the number of right ones is smaller by 1. So
  ``right_i <= 1 - f(wrong_{i-1})``, where the mean over canaries and coins is inside since f is convex. From
  ``P[right >= v] = p`` follows step by step how much of the rest must lie below v; if all together is more than r / m,
  p is impossible. Mahloujifar, Melis and Chaudhuri, Auditing f-Differential Privacy in One Run, ICML 2025,
  https://arxiv.org/abs/2410.22235.

The first is exact for randomised response, the second much closer for noise that is Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedloom.attacks.measures.interval import Rates
from fedloom.attacks.measures.trade_off import Curve

MOST_EPSILON = 20.0
"""No number of canaries that fits into a run rules out more."""
SHARES = (0.5, 0.25, 0.1)
"""How many of the canaries are guessed, in several tries; the probability that a bound fails is shared by them."""


@dataclass(frozen=True)
class CoinGuesses:
    """Guesses of coins.

    Args:
        right: How many were right.
        guessed: How many coins were guessed.
        canaries: How many coins there were.
    """

    right: int
    guessed: int
    canaries: int


def guess_coins(scores: Rates, coins: Rates) -> list[CoinGuesses]:
    """Guess "in" of the highest scores and "out" of as many of the lowest, for each number of guesses that is tried.

    Args:
        scores: The attacker's score of each canary; a higher score says "in".
        coins: 1 for each canary that was in the run, 0 for the others.
    """
    order, found = np.argsort(-scores, kind="stable"), []
    for half in dict.fromkeys(max(1, round(share * len(scores) / 2)) for share in SHARES):
        right = coins[order[:half]].sum() + (1 - coins[order[len(order) - half :]]).sum()
        found.append(CoinGuesses(int(right), 2 * half, len(scores)))
    return found


def chance_if_private(guesses: CoinGuesses, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses, or more, under (epsilon, delta)-privacy.

    Args:
        guesses: What was guessed.
        epsilon: What is claimed.
        delta: The probability with which it may not hold.
    """
    from scipy.stats import binom

    rate = 1 / (1 + math.exp(-epsilon))
    fewer = np.arange(1, guesses.right + 1)
    below = np.cumsum(binom.pmf(guesses.right - fewer, guesses.guessed, rate)) / fewer
    beyond = 2 * guesses.canaries * delta * below.max(initial=0.0)
    return min(1.0, float(binom.sf(guesses.right - 1, guesses.guessed, rate) + beyond))


def rules_out(guesses: CoinGuesses, curve: Curve, chance: float) -> bool:
    """Whether so many right guesses, or more, have a probability below ``chance`` under a trade-off curve.

    Args:
        guesses: What was guessed.
        curve: What is claimed.
        chance: The probability with which this may be wrong.
    """
    most = guesses.guessed / guesses.canaries
    right = chance * guesses.right / guesses.canaries
    wrong = chance * (guesses.guessed - guesses.right) / guesses.canaries
    for count in range(guesses.right - 1, -1, -1):
        # A curve is its own inverse: 1 - f(wrong) >= right is wrong >= f(1 - right).
        needed = max(wrong, float(curve(np.array([1 - right]))[0]))
        right += count / (guesses.guessed - count) * (needed - wrong)
        wrong = needed
        if right + wrong > most:
            return True
    return False


def least_epsilon(all_guesses: Sequence[CoinGuesses], delta: float, confidence: float) -> float:
    """The largest epsilon that guesses rule out; 0 if they rule out none.

    Args:
        all_guesses: The tries, whose number was fixed beforehand.
        delta: The delta that is claimed.
        confidence: The probability with which it is true that epsilon is larger.
    """
    chance = (1 - confidence) / len(all_guesses)

    def is_ruled_out(epsilon: float) -> bool:
        return any(chance_if_private(some, epsilon, delta) < chance for some in all_guesses)

    return last_where(is_ruled_out, 0.0, MOST_EPSILON)


def last_where(holds: Callable[[float], bool], low: float, high: float, steps: int = 30) -> float:
    """The last number at which something holds that holds up to some number; the least if it holds nowhere.

    Args:
        low: The least number that is tried.
        high: The largest one.
        steps: How often the interval is halved.
    """
    if not holds(low):
        return low
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
