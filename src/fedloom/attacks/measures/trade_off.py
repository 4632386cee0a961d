"""The trade-off of two errors: how few members an attacker can miss who may accuse only some of the others.

Privacy is a bound on that curve: f-differential privacy says ``missed >= f(accused)`` of every attacker (Dong, Roth and
Su, Gaussian Differential Privacy, 2022, https://arxiv.org/abs/1905.02383). A pair of epsilon and delta is a curve of
two lines; all pairs of a mechanism together are its own curve; noise of deviation ``1 / mu`` on what one member
changes by 1 has ``f(a) = Phi(Phi^-1(1 - a) - mu)``. Beside it stands what scores come to, with a band that holds at all
of its points together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedloom.attacks.measures.interval import Rates, clopper_pearson

Curve = Callable[[Rates], Rates]
"""The least rate of missed members at some rates of accused others: convex, and its own inverse."""
Profile = Sequence[tuple[float, float]]
"""Pairs of epsilon and delta that all hold, in both directions: what is there may go, and what is not may come."""
LARGE = 700.0
"""An epsilon that promises nothing, and whose exponential is still a number."""
ACCUSED = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
"""The shares of others that are accused at the thresholds of a measured curve."""


def curve_of_profile(profile: Profile) -> Curve:
    """What some pairs of epsilon and delta promise together.

    Args:
        profile: The pairs; with more of them the curve is closer to the mechanism's, and never above it.
    """

    def least(accused: Rates) -> Rates:
        missed = np.zeros_like(accused)
        for epsilon, delta in profile:
            grown = math.exp(min(epsilon, LARGE))
            missed = np.maximum(missed, 1 - delta - grown * accused)
            missed = np.maximum(missed, (1 - delta - accused) / grown)
        return missed

    return least


def gaussian_curve(mu: float) -> Curve:
    """What Gaussian noise promises.

    Args:
        mu: By how many deviations of the noise one member changes what is seen.
    """
    from scipy.special import ndtr, ndtri

    def least(accused: Rates) -> Rates:
        missed: Rates = ndtr(-ndtri(accused) - mu)
        return missed

    return least


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of Gaussian noise at a delta.

    Args:
        mu: By how many deviations of the noise one member changes what is seen.
        delta: The probability with which epsilon may not hold.
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)) - delta)

    if mu <= 0 or excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, mu * (mu / 2 + 40)))  # at 40 deviations no delta is left


@dataclass(frozen=True)
class TradeOffPoint:
    """Both errors at one threshold.

    Args:
        accused: The share of others above it, and what their rate is at most.
        missed: The share of members below it, and what their rate is at least and at most.
    """

    accused: float
    most_accused: float
    missed: float
    least_missed: float
    most_missed: float


@dataclass(frozen=True)
class TradeOff:
    """The curve that scores come to; its bounds hold at all points together with ``confidence``.

    Args:
        points: Thresholds that accuse more and more of the others.
    """

    points: tuple[TradeOffPoint, ...]
    confidence: float

    def exceeds(self, promise: Curve) -> bool:
        """Whether fewer are missed than is promised, by the band and not by chance.

        Args:
            promise: What is claimed.
        """
        accused = np.array([point.most_accused for point in self.points])
        return bool((promise(accused) > np.array([point.most_missed for point in self.points])).any())

    @property
    def least_mu(self) -> float:
        """The largest ``mu`` that the band rules out for Gaussian noise; 0 if it rules out none."""
        from scipy.special import ndtri

        return max(0.0, *(float(-ndtri(point.most_accused) - ndtri(point.most_missed)) for point in self.points))


def trade_off(inside: Rates, outside: Rates, confidence: float = 0.95) -> TradeOff:
    """The curve of an attacker's scores, each of which is of a trial of its own.

    Thresholds are scores of others, of a rank that is fixed beforehand: the rate above the k-th largest of n is at most
    what Clopper and Pearson say of ``k - 1`` in n. What is missed is counted in other trials, so the usual interval
    holds there. The probability that a bound fails is shared by all of them.

    Args:
        inside: The scores of members; a higher score says "in".
        outside: Those of others.
        confidence: The probability with which all bounds hold together.
    """
    others, members = np.sort(outside)[::-1], np.sort(inside)
    ranks = sorted({int(share * len(others)) for share in ACCUSED})
    single = 1 - 2 * (1 - confidence) / (3 * len(ranks))  # three bounds at each point, each with half of what may fail
    points = []
    for rank in ranks:
        above = int(np.searchsorted(-others, -others[rank], "left"))
        below = int(np.searchsorted(members, others[rank], "right"))
        _, most_accused = clopper_pearson(rank, len(others), single)
        least, most = clopper_pearson(below, len(members), single)
        points.append(
            TradeOffPoint(above / len(others), float(most_accused), below / len(members), float(least), float(most))
        )
    return TradeOff(tuple(points), confidence)
