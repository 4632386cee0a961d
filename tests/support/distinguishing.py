"""How well the best attacker tells two neighbours apart, against what epsilon and delta allow."""

from __future__ import annotations

import math

import numpy as np

QUANTILES = (0.5, 0.7, 0.9, 0.95, 0.98, 0.99, 0.995)


def violation(there: np.ndarray, without: np.ndarray, epsilon: float, delta: float) -> float:
    """How far P(said there | there) is above exp(epsilon) P(said there | not there) + delta, less a possible error.

    Args:
        there: What many independent runs release with the client or sample.
        without: The same without it; values above a threshold are taken for "there".
        epsilon: The epsilon that is claimed.
        delta: The delta that is claimed.
    """
    worst, runs = -math.inf, len(there)
    for threshold in np.quantile(without, QUANTILES):
        hit, false = float((there > threshold).mean()), float((without > threshold).mean())
        error = math.sqrt(hit * (1 - hit) / runs) + math.exp(epsilon) * math.sqrt(false * (1 - false) / runs)
        worst = max(worst, hit - math.exp(epsilon) * false - delta - 5 * error)
    return worst
