"""Settings of noise: what protects nobody is refused, and noise that nobody has named follows from a target.

With ``epsilon`` alone, noise is the least that keeps to it over the whole run (``planned``); with ``noise`` too,
``epsilon`` is only the budget at which the run stops; with neither, noise is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

from annotated_types import Ge, Gt, Le

from fedloom.core.errors import FedloomError
from fedloom.core.privacy import PlannedRun
from fedloom.core.selector import Draws
from fedloom.core.settings import check_value

LEAST_NOISE, LARGEST_NOISE = 1e-12, 1e6
"""Noise is a deviation divided by a clip norm; outside of these bounds accounting is not possible, and useless."""
MOST_NOISE = 1e4
"""More noise than this is never tried."""
Noise = Annotated[float, Ge(LEAST_NOISE), Le(LARGEST_NOISE)]

SCORES = (
    "protects what clients send, and not scores: set eval_every = 0, and evaluate the model at the sites afterwards"
)
"""Why noise of clients' own needs that no score leaves them."""

USUAL_NOISE = 1.0
RARELY = 0.01
"""The chance that a plan may have of a client who is drawn more often than planned, and stays away then."""


def multiplier_of(name: str, noise: float | None, epsilon: float | None) -> float:
    """The noise of a mechanism whose settings are complete.

    Args:
        name: What users call it.
        noise: Its setting.
        epsilon: Its target, with which noise is found when a run is prepared.
    """
    if noise is not None:
        return noise
    if epsilon is None:
        return USUAL_NOISE
    raise FedloomError(f"{name}: epsilon={epsilon:g} without noise needs a run, whose rounds say how much noise it is.")


def planned_noise(noise: float | None, epsilon: float | None, find: Callable[[float], float]) -> float:
    """The noise of a mechanism in a run: what is given, what a target needs, or the usual one.

    Args:
        noise: Its setting.
        epsilon: Its target.
        find: Finds the noise that a target needs in this run.
    """
    if noise is not None:
        return noise
    return USUAL_NOISE if epsilon is None else find(epsilon)


def most_replies(plan: PlannedRun) -> int:
    """How often a client replies at most: as often as the method asks it, in the rounds in which it takes part.

    Args:
        plan: The run as far as it is known before it starts.
    """
    return most_turns(plan.rounds, plan.clients, plan.draws) * plan.algorithm.turns


def most_turns(rounds: int, clients: int, draws: Draws | None) -> int:
    """How often a client takes part at most: in all rounds, or as often as draws at random let it, but for a run in a
    hundred. Its budget holds in that run too: the client stays away.

    Args:
        rounds: How many rounds there are.
        clients: How many clients may take part.
        draws: How those of a round are drawn; None if nothing is known of that.
    """
    if draws is None:
        return rounds
    rate = draws.rate if draws.rate is not None else (draws.number or clients) / clients
    if rate >= 1:
        return rounds
    from scipy.stats import binom

    return max(1, int(binom.isf(RARELY / clients, rounds, rate)))


def smallest_noise(spends: Callable[[float], float], epsilon: float, over: str) -> float:
    """The smallest noise with which a mechanism keeps to a budget, to three digits, rounded up.

    Args:
        spends: The epsilon that a noise spends.
        epsilon: The budget.
        over: Over what, in words of an error.
    """
    check_value("epsilon", epsilon, Annotated[float, Gt(0)])

    def spends_too_much(noise: float) -> bool:
        return spends(noise) > epsilon

    low, high = 0.0, 1.0
    while spends_too_much(high):
        low, high = high, 2 * high
        if high > MOST_NOISE:
            raise FedloomError(
                f"epsilon={epsilon:g} over {over} needs noise above {MOST_NOISE:g} times the clip norm: plan "
                "fewer rounds, fewer clients per round, or a larger epsilon."
            )
    if low == 0 and not spends_too_much(2 * LEAST_NOISE):
        raise FedloomError(f"epsilon={epsilon:g} does not protect anybody: plan a smaller one.")
    while low == 0 and not spends_too_much(high / 2):
        high /= 2
    low = max(low, high / 2)
    while high - low > 2e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if spends_too_much(middle) else (low, middle)
    digits = 3 - math.ceil(math.log10(high))
    noise = float(math.ceil(high * 10**digits) / 10**digits)
    while spends_too_much(noise):
        noise = round(noise + 10**-digits, max(digits, 0))
    return noise
