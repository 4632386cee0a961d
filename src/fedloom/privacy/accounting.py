"""How much privacy a run spends: epsilon at delta after some rounds, and the noise that a budget needs.

A round adds Gaussian noise to a sum of clipped changes; ``noise`` (sigma) is its deviation divided by the clip norm.
Where dp-accounting knows the privacy loss distribution of the sampling, its pessimistic estimate counts. Of a fixed
number of clients without replacement it does not, and Rényi's accounting is used (Wang, Balle and Kasiviswanathan,
https://arxiv.org/abs/1808.00087). One client changes that sum by twice the clip norm, which the library leaves out: it
is given half of the noise.

The library comes with ``pip install 'fedloom[privacy]'``.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from fedloom.core.errors import FedloomError
from fedloom.core.settings import OpenShare, check_value
from fedloom.privacy.noise_settings import Noise, smallest_noise
from fedloom.privacy.sampling import REPLACE, ClientSampling, EveryClient, FixedSize, PoissonDraw

GRID = 5e-4
"""The grid of privacy losses with a noise of 1 or more; with less noise losses are larger, and so is the grid."""


class Accountant(Protocol):
    """Knows what a number of equal rounds spends."""

    def epsilon(self, rounds: int, delta: float) -> float:
        """The epsilon of this many rounds."""


class LossDistribution:
    """The privacy loss distribution of a round, composed with itself: always in the same way, so that a run that is
    stopped and resumed records the same numbers."""

    def __init__(self, sampling: ClientSampling, noise: float, grid: float = GRID) -> None:
        pld = _library("pld.privacy_loss_distribution")
        relations = _library("privacy_accountant").NeighboringRelation
        relation = relations.REPLACE_ONE if sampling.neighbours == REPLACE else relations.ADD_OR_REMOVE_ONE
        rate = sampling.rate if isinstance(sampling, PoissonDraw) and sampling.amplifies else 1.0
        if relation is relations.REPLACE_ONE and rate == 1:  # the sum moves by twice the clip norm
            noise, relation = noise / 2, relations.ADD_OR_REMOVE_ONE
        self._one = pld.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            value_discretization_interval=grid * max(1, 1 / noise**2),
            neighboring_relation=relation,
        )

    def epsilon(self, rounds: int, delta: float) -> float:
        """The epsilon of this many rounds."""
        return float(self._one.self_compose(rounds).get_epsilon_for_delta(delta))


class RenyiDivergence:
    """Rényi's divergences of a round, times the number of rounds."""

    def __init__(self, sampling: ClientSampling, noise: float) -> None:
        dp = _library("")
        self._library, self._orders = _library("rdp"), list(_library("rdp.rdp_privacy_accountant").DEFAULT_RDP_ORDERS)
        replaces = sampling.neighbours == REPLACE
        gaussian = dp.GaussianDpEvent(noise / 2 if replaces else noise)
        relations = dp.NeighboringRelation
        by_number = isinstance(sampling, FixedSize) and sampling.amplifies
        if isinstance(sampling, FixedSize) and by_number:
            event = dp.SampledWithoutReplacementDpEvent(sampling.clients, sampling.number, gaussian)
        elif isinstance(sampling, PoissonDraw) and sampling.amplifies and sampling.rate < 1 and not replaces:
            event = dp.PoissonSampledDpEvent(sampling.rate, gaussian)
        elif isinstance(sampling, EveryClient | PoissonDraw | FixedSize):
            event = gaussian
        else:
            raise FedloomError(f"there is no accounting for {sampling}.")
        relation = relations.REPLACE_ONE if by_number else relations.ADD_OR_REMOVE_ONE
        self._relation, self._event = relation, event

    def epsilon(self, rounds: int, delta: float) -> float:
        """The epsilon of this many rounds."""
        accountant = self._library.RdpAccountant(self._orders, self._relation)
        accountant.compose(self._event, rounds)
        return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=64)
def accountant_for(sampling: ClientSampling, noise: float) -> Accountant:
    """The accountant whose epsilon is reported.

    Args:
        sampling: How the clients of a round are drawn.
        noise: The deviation of the noise, divided by the clip norm.
    """
    by_number = isinstance(sampling, FixedSize) and sampling.amplifies
    return RenyiDivergence(sampling, noise) if by_number else LossDistribution(sampling, noise)


def epsilon_after(sampling: ClientSampling, noise: float, rounds: int, delta: float, mechanisms: int = 1) -> float:
    """The epsilon that a run has spent after some rounds; infinity without noise.

    Args:
        sampling: How the clients of a round are drawn.
        noise: The deviation of the noise, divided by the clip norm.
        rounds: How many rounds were played.
        delta: The probability with which epsilon may not hold.
        mechanisms: How many noisy sums a round makes of the same clients.
    """
    check_value("delta", delta, OpenShare)
    if noise != 0:
        check_value("noise", noise, Noise)
    if rounds == 0:
        return 0.0
    if noise == 0:
        return math.inf
    # Several sums of the same clients are one Gaussian mechanism of a larger sensitivity.
    return _composed_epsilon(sampling, noise / math.sqrt(mechanisms), rounds, delta)


@lru_cache(maxsize=1 << 12)
def _composed_epsilon(sampling: ClientSampling, noise: float, rounds: int, delta: float) -> float:
    """The same; every round of a run asks twice, for its budget and for its record."""
    return guarded_epsilon(lambda: accountant_for(sampling, noise).epsilon(rounds, delta))


def guarded_epsilon(compute: Callable[[], float]) -> float:
    """An epsilon that is computed; infinity where there is so little noise that the accountant overflows."""
    try:
        return compute()
    except (OverflowError, MemoryError):
        return math.inf


def renyi_epsilon(divergence: Callable[[float], float], delta: float) -> float:
    """The epsilon of a mechanism whose Rényi divergences are known, at the best whole order.

    Args:
        divergence: The divergence of an order.
        delta: The probability with which epsilon may not hold.
    """
    rdp = _library("rdp.rdp_privacy_accountant")
    orders = [float(order) for order in rdp.DEFAULT_RDP_ORDERS if order > 1 and order == int(order)]
    return float(rdp.compute_epsilon(orders, [divergence(order) for order in orders], delta)[0])


def noise_for(sampling: ClientSampling, epsilon: float, rounds: int, delta: float, mechanisms: int = 1) -> float:
    """The smallest noise with which a run keeps to a budget, to three digits, rounded up.

    Args:
        sampling: How the clients of a round are drawn.
        epsilon: The budget.
        rounds: How many rounds are played.
        delta: The probability with which epsilon may not hold.
        mechanisms: How many noisy sums a round makes of the same clients.
    """
    check_value("delta", delta, OpenShare)
    return smallest_noise(
        lambda noise: epsilon_after(sampling, noise, rounds, delta, mechanisms), epsilon, f"{rounds} rounds"
    )


def _library(part: str) -> Any:
    try:
        found = importlib.import_module(f"dp_accounting.{part}".rstrip("."))
    except ImportError as error:
        raise FedloomError("privacy is accounted for by dp-accounting: pip install 'fedloom[privacy]'.") from error
    logging.getLogger("absl").setLevel(logging.ERROR)  # it warns of orders that it leaves out
    return found
