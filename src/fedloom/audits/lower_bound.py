"""Epsilon as trials show it: how well an attacker tells two neighbours apart, with a confidence.

A mechanism that is (epsilon, delta)-private lets no attacker have ``P(says in | in) > exp(epsilon) P(says in | out) +
delta``, nor the same for "out". An attacker that is played many times against both neighbours gives both rates, with
Clopper and Pearson's bounds, and so a bound that a true epsilon is below with a probability of 5 %. The threshold is
chosen on one half of the trials and judged on the other one. Jagielski, Ullman and Oprea, Auditing Differentially
Private Machine Learning, NeurIPS 2020, https://arxiv.org/abs/2006.07709.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedloom.attacks.measures.interval import clopper_pearson

Scores = np.ndarray[Any, np.dtype[np.float64]]
CONFIDENCE = 0.95
SHARES = np.linspace(0, 1, 201)
"""The quantiles of the first half's scores that are tried as thresholds."""


@dataclass(frozen=True)
class EmpiricalEpsilon:
    """The epsilon that an attacker's guesses come to.

    Args:
        least: The largest epsilon that the trials rule out for the mechanism; 0 if they rule out none.
        seen: What the guesses of these trials come to; infinite if none was wrong.
        most: What guesses of this attacker come to at most. Another attacker may do better.
    """

    least: float
    seen: float
    most: float


def empirical_epsilon(there: Scores, without: Scores, delta: float, confidence: float = CONFIDENCE) -> EmpiricalEpsilon:
    """The epsilon of an attacker's guesses, with its interval; each of its ends alone holds with ``confidence``.

    Args:
        there: The attacker's scores of runs with the canary; a higher score says "in".
        without: Those of runs of the neighbour.
        delta: The delta that is claimed.
        confidence: The probability with which a bound holds.
    """
    choose, judge = slice(None, None, 2), slice(1, None, 2)
    thresholds = np.quantile(np.concatenate([there[choose], without[choose]]), SHARES)
    bounds = _bounds(there[choose], without[choose], thresholds, delta, confidence)[0]
    guess, place = np.unravel_index(np.argmax(bounds), bounds.shape)
    found = _bounds(there[judge], without[judge], thresholds[place : place + 1], delta, confidence)[:, guess, 0]
    least, seen, most = (max(0.0, float(end)) for end in found)
    return EmpiricalEpsilon(least, seen, most)


def _bounds(there: Scores, without: Scores, thresholds: Scores, delta: float, confidence: float) -> Scores:
    """Bounds for each threshold and both guesses: "in" above it, and "out" below it."""
    above_in, above_out = (
        np.array([(scores > threshold).sum() for threshold in thresholds], dtype=np.float64)
        for scores in (there, without)
    )
    return np.stack(
        [
            _ends(above_in, len(there), above_out, len(without), delta, confidence),
            _ends(len(without) - above_out, len(without), len(there) - above_in, len(there), delta, confidence),
        ],
        axis=1,
    )


def _ends(right: Scores, of: int, wrong: Scores, of_wrong: int, delta: float, confidence: float) -> Scores:
    """Least, seen and most: the logarithm of a rate of right guesses, less delta, over one of wrong guesses."""
    least_right, most_right = clopper_pearson(right, of, confidence)  # two bounds hold together, each with half of
    least_wrong, most_wrong = clopper_pearson(wrong, of_wrong, confidence)  # what may fail
    pairs = ((least_right, most_wrong), (right / of, wrong / of_wrong), (most_right, least_wrong))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.stack([np.where(hit > delta, np.log((hit - delta) / missed), 0.0) for hit, missed in pairs])
