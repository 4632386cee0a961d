"""How well scores tell members from others: AUC, and true positives where false ones are rare.

A score is higher the surer an attacker is that a sample was trained on. AUC is the probability that a member's score is
above another's (ties count half). An average over all thresholds hides the few samples of which an attacker is sure:
so there is also the true-positive rate where 0.1 % and 1 % of others are accused. Carlini, Chien, Nasr, Song, Terzis
and Tramèr, Membership Inference Attacks From First Principles, S&P 2022, https://arxiv.org/abs/2112.03570.

What is (epsilon, delta)-private allows at no threshold more than ``TPR <= exp(epsilon) FPR + delta``. Kairouz, Oh and
Viswanath, The Composition Theorem for Differential Privacy, ICML 2015, https://arxiv.org/abs/1311.0776. So it bounds
the AUC too, and at an epsilon of 2 that bound is far above 0.5: 0.88.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fedloom.attacks.measures.interval import Rates, clopper_pearson
from fedloom.attacks.measures.trade_off import Profile, curve_of_profile

RARE = (0.001, 0.01)
"""The false-positive rates at which true positives are reported."""
STEPS = 100_000
"""Of how many strips the area under a bound is made."""


@dataclass(frozen=True)
class RateAt:
    """How many members are found while few others are accused.

    Args:
        allowed: The largest false-positive rate.
        false_positives: The rate at the threshold, and what it is at most.
        true_positives: The rate at the threshold, and what it is at least and at most.
    """

    allowed: float
    false_positives: float
    most_false_positives: float
    true_positives: float
    least: float
    most: float

    def exceeds(self, epsilon: float, delta: float) -> bool:
        """Whether the rates are more than privacy allows, by their intervals and not by chance.

        Args:
            epsilon: What is claimed.
            delta: The probability with which it may not hold.
        """
        return self.least > math.exp(epsilon) * self.most_false_positives + delta


@dataclass(frozen=True)
class Guesses:
    """How well an attack tells members from others.

    Args:
        auc: 0.5 for guesses at random, 1 for an attacker that is always right.
        rates: True positives at 0.1 % and at 1 % false ones.
        members: How many members were judged.
        others: How many others.
    """

    auc: float
    rates: tuple[RateAt, ...]
    members: int
    others: int


def judge_guesses(inside: Tensor, outside: Tensor, rates: tuple[float, ...] = RARE) -> Guesses:
    """How well scores tell members from others.

    Args:
        inside: The scores of samples that were trained on.
        outside: Those of others.
        rates: The false-positive rates at which true positives are reported.
    """
    found = tuple(true_positives_at(inside, outside, rate) for rate in rates)
    return Guesses(auc(inside, outside), found, len(inside), len(outside))


def auc(inside: Tensor, outside: Tensor) -> float:
    """The probability that a member's score is above another's; ties count half.

    Args:
        inside: The scores of members.
        outside: Those of others.
    """
    below, members = np.sort(_numbers(outside)), _numbers(inside)
    wins = np.searchsorted(below, members, "left") + np.searchsorted(below, members, "right")
    return float(wins.mean() / 2 / len(below))


def most_auc(profile: Profile) -> float:
    """The largest AUC that privacy leaves possible: ``1`` less the area under the least rate of missed members.

    A mechanism has an epsilon for every delta, and each of these pairs bounds that rate (Dong, Roth and Su, Gaussian
    Differential Privacy, https://arxiv.org/abs/1905.02383, proposition 2.5). Of one pair with ``delta = 0`` it is
    ``exp(epsilon) / (1 + exp(epsilon))``. The rate is convex, so that strips as high as their middle are no more than
    the area.

    Args:
        profile: Some pairs of epsilon and delta that all hold.
    """
    accused = (np.arange(STEPS) + 0.5) / STEPS
    return float(1 - curve_of_profile(profile)(accused).mean())


def true_positives_at(inside: Tensor, outside: Tensor, allowed: float, confidence: float = 0.95) -> RateAt:
    """True positives at the lowest threshold that accuses no more than a share of the others.

    Args:
        inside: The scores of members.
        outside: Those of others.
        allowed: The largest share of others that is accused.
        confidence: The probability with which the interval of the rates holds.
    """
    members, others = _numbers(inside), np.sort(_numbers(outside))[::-1]
    threshold = others[int(allowed * len(others) + 1e-9)] if allowed < 1 else -np.inf
    right, wrong = int((members > threshold).sum()), int((others > threshold).sum())
    least, most = clopper_pearson(right, len(members), confidence)
    _, accused = clopper_pearson(wrong, len(others), confidence)
    return RateAt(allowed, wrong / len(others), float(accused), right / len(members), float(least), float(most))


def _numbers(scores: Tensor) -> Rates:
    found: Rates = scores.detach().double().numpy()
    return found
