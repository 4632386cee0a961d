"""A lower bound of epsilon from trials: how well an attacker tells two neighbours apart, with a confidence.

A mechanism that is (epsilon, delta)-private lets no attacker have ``P(says in | in) > exp(epsilon) P(says in | out) +
delta``, nor the same for "out". An attacker that is played many times against both neighbours gives both rates, with
Clopper and Pearson's bounds, and so a bound that a true epsilon is below with a probability of 5 %. The threshold is
chosen on one half of the trials and judged on the other one. Jagielski, Ullman and Oprea, Auditing Differentially
Private Machine Learning, NeurIPS 2020, https://arxiv.org/abs/2006.07709.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import beta

Scores = np.ndarray[Any, np.dtype[np.float64]]
CONFIDENCE = 0.95
SHARES = np.linspace(0, 1, 201)
"""The quantiles of the first half's scores that are tried as thresholds."""


def epsilon_lower_bound(there: Scores, without: Scores, delta: float, confidence: float = CONFIDENCE) -> float:
    """The largest epsilon that the trials rule out; 0 if they rule out none.

    Args:
        there: The attacker's scores of runs with the canary; a higher score says "in".
        without: Those of runs of the neighbour.
        delta: The delta that is claimed.
        confidence: The probability with which the bound holds.
    """
    choose, judge = slice(None, None, 2), slice(1, None, 2)
    first, second = (there[choose], without[choose]), (there[judge], without[judge])
    # Each side of a threshold is a guess of its own: "in" above it, or "out" below it.
    guesses = [(threshold, sign) for threshold in np.quantile(np.concatenate(first), SHARES) for sign in (1, -1)]
    best = max(guesses, key=lambda guess: _bound(*first, guess[0], guess[1], delta, confidence))
    return max(0.0, _bound(*second, best[0], best[1], delta, confidence))


def _bound(there: Scores, without: Scores, threshold: float, sign: int, delta: float, confidence: float) -> float:
    right, wrong = _rates(there, without, threshold, sign)
    half = (1 - confidence) / 2  # two bounds hold together
    least = float(beta.ppf(half, right, len(there) - right + 1)) if right else 0.0
    most = float(beta.ppf(1 - half, wrong + 1, len(without) - wrong)) if wrong < len(without) else 1.0
    return math.log((least - delta) / most) if least > delta else 0.0


def _rates(there: Scores, without: Scores, threshold: float, sign: int) -> tuple[int, int]:
    """How often a guess is right, and how often it is wrong: "in" above the threshold, or "out" below it."""
    if sign > 0:
        return int((there > threshold).sum()), int((without > threshold).sum())
    return int((without <= threshold).sum()), int((there <= threshold).sum())
