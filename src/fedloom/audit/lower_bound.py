"""A lower bound of epsilon from trials: how well an attacker tells two neighbours apart, with a confidence.

A mechanism that is (epsilon, delta)-private lets no attacker have ``P(says in | in) > exp(epsilon) P(says in | out) +
delta``, nor the same for "out". An attacker that is played many times against both neighbours gives both rates, with
Clopper and Pearson's bounds, and so a bound that a true epsilon is below with a probability of 5 %. The threshold is
chosen on one half of the trials and judged on the other one. Jagielski, Ullman and Oprea, Auditing Differentially
Private Machine Learning, NeurIPS 2020, https://arxiv.org/abs/2006.07709.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedloom.attacks.measures.interval import clopper_pearson

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
    thresholds = np.quantile(np.concatenate([there[choose], without[choose]]), SHARES)
    bounds = _bounds(there[choose], without[choose], thresholds, delta, confidence)
    guess, place = np.unravel_index(np.argmax(bounds), bounds.shape)
    found = _bounds(there[judge], without[judge], thresholds[place : place + 1], delta, confidence)
    return max(0.0, float(found[guess, 0]))


def _bounds(there: Scores, without: Scores, thresholds: Scores, delta: float, confidence: float) -> Scores:
    """A bound for each threshold and both guesses: "in" above it, and "out" below it."""
    above_in, above_out = (
        np.array([(scores > threshold).sum() for threshold in thresholds], dtype=np.float64)
        for scores in (there, without)
    )
    return np.stack(
        [
            _bound(above_in, len(there), above_out, len(without), delta, confidence),
            _bound(len(without) - above_out, len(without), len(there) - above_in, len(there), delta, confidence),
        ]
    )


def _bound(right: Scores, of: int, wrong: Scores, of_wrong: int, delta: float, confidence: float) -> Scores:
    """The logarithm of the least rate of right guesses, less delta, over the largest rate of wrong ones."""
    least, _ = clopper_pearson(right, of, confidence)  # two bounds hold together, each with half of what may fail
    _, most = clopper_pearson(wrong, of_wrong, confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(least > delta, np.log((least - delta) / most), 0.0)
