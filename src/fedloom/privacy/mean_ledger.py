"""The ledger of a private mean, or the reason why its settings protect nobody."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from fedloom.core.algorithm import SelectsGroups
from fedloom.core.errors import FedloomError
from fedloom.core.privacy import PlannedRun
from fedloom.privacy.ledger import PrivacyLedger
from fedloom.privacy.sampling import ClientSampling, EveryClient, FixedSize, PoissonChains, PoissonDraw

if TYPE_CHECKING:
    from fedloom.privacy.private_mean import PrivateMean

log = logging.getLogger("fedloom")

EMPTY = 0.01
"""The share of delta that rounds without a client may take: they are drawn again, which the accounting leaves out."""


def mean_ledger(mean: PrivateMean, plan: PlannedRun) -> PrivacyLedger:
    """The ledger of a run whose mean has noise."""
    sampling, messages = sampling_of(mean, plan), sums_per_round(plan)
    ledger = PrivacyLedger(sampling, mean.multiplier, mean.delta, messages, mean.epsilon)
    if mean.quantile is not None:
        mean.noise_beside_a_count(ledger.expected)
    if not math.isfinite(ledger.spent(1)):
        raise FedloomError(
            f"aggregation.noise={mean.multiplier:g} is so little that it protects nobody: fedloom privacy says how "
            "much a budget needs."
        )
    if ledger.budget is not None and ledger.spent(1) > ledger.budget:
        raise FedloomError(
            f"the first round alone spends epsilon {ledger.spent(1):.3g} at delta {mean.delta:g}, and the budget is "
            f"{ledger.budget:g}: raise aggregation.noise (fedloom privacy says by how much), or draw fewer clients."
        )
    if mean.seeded:
        log.warning("clients and noise are drawn from the run's seed: its privacy is for study only")
    return ledger


def sums_per_round(plan: PlannedRun) -> int:
    """How many noisy sums a round makes of the same clients: one of each tensor, in every turn of the method.

    Args:
        plan: The run as far as it is known before it starts.
    """
    return plan.algorithm.turns * len(plan.algorithm.sends)


def sampling_of(mean: PrivateMean, plan: PlannedRun) -> ClientSampling:
    """How clients are drawn, as far as the accounting covers it.

    Args:
        mean: The mean whose noise is counted.
        plan: The run as far as it is known before it starts.
    """
    draws, method, known = plan.draws, plan.algorithm, plan.tells_draws is not None
    if isinstance(method, SelectsGroups):
        if draws is None or draws.rate is None:
            raise FedloomError("chains are private if selection poisson draws them: use it with the method's chains.")
        if plan.clients < plan.task.federation.clients:  # a chain of held-out clients only is never drawn
            raise FedloomError("chains are private if no client of them is held out: leave out new_clients.")
        chains = len(method.groups({}))
        return checked_poisson(PoissonChains(draws.rate, chains, known=known), plan.rounds, mean.delta)
    if draws is not None and draws.rate is not None:
        return checked_poisson(PoissonDraw(draws.rate, plan.clients, known=known), plan.rounds, mean.delta)
    if draws is None or draws.number is None:
        raise FedloomError("privatemean needs to know how clients are drawn: use selection poisson.")
    if draws.number == plan.clients:
        return EveryClient(plan.clients)
    return FixedSize(draws.number, plan.clients, known=known)


def checked_poisson(sampling: PoissonDraw, rounds: int, delta: float) -> PoissonDraw:
    """The same draws; rounds that are so small that some may have no client are refused.

    Args:
        sampling: How clients, or chains of them, are drawn, and how many there are.
        rounds: How many rounds there are.
        delta: The probability with which epsilon may not hold.
    """
    units = sampling.clients or 0
    empty = rounds * (1 - sampling.rate) ** units
    if empty > EMPTY * delta:
        least = 1 - (EMPTY * delta / rounds) ** (1 / units)
        raise FedloomError(
            f"selection poisson draws {sampling.expected:g} of {units} on average, and a round without any has a "
            f"probability of {empty / rounds:.2g}, too much for delta={delta:g}: raise selection.rate to "
            f"{math.ceil(least * 1000) / 1000:g}, which is {math.ceil(least * units):,} clients per round."
        )
    return sampling
