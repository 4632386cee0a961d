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
    sampling, messages = _sampling(mean, plan), len(plan.algorithm.sends)
    ledger = PrivacyLedger(sampling, mean.noise, mean.delta, messages, mean.epsilon)
    if mean.quantile is not None:
        mean.noise_beside_a_count(ledger.expected)
    if not math.isfinite(ledger.spent(1)):
        raise FedloomError(
            f"aggregation.noise={mean.noise:g} is so little that it protects nobody: fedloom privacy says how much a "
            "budget needs."
        )
    if ledger.budget is not None and ledger.spent(1) > ledger.budget:
        raise FedloomError(
            f"the first round alone spends epsilon {ledger.spent(1):.3g} at delta {mean.delta:g}, and the budget is "
            f"{ledger.budget:g}: raise aggregation.noise (fedloom privacy says by how much), or draw fewer clients."
        )
    if mean.seeded:
        log.warning("clients and noise are drawn from the run's seed: its privacy is for study only")
    return ledger


def _sampling(mean: PrivateMean, plan: PlannedRun) -> ClientSampling:
    """How clients are drawn, as far as the accounting covers it."""
    draws, method, known = plan.draws, plan.algorithm, mean.seeded or plan.deployed
    if isinstance(method, SelectsGroups):
        if draws is None or draws.rate is None:
            raise FedloomError("chains are private if selection poisson draws them: use it with the method's chains.")
        chains = len(method.groups({}))
        return _checked_poisson(PoissonChains(draws.rate, chains, known=known), mean, plan, chains)
    if draws is not None and draws.rate is not None:
        return _checked_poisson(PoissonDraw(draws.rate, plan.clients, known=known), mean, plan, plan.clients)
    if draws is None or draws.number is None:
        raise FedloomError("privatemean needs to know how clients are drawn: use selection poisson.")
    if draws.number == plan.clients:
        return EveryClient(plan.clients)
    return FixedSize(draws.number, plan.clients, known=known)


def _checked_poisson(sampling: PoissonDraw, mean: PrivateMean, plan: PlannedRun, units: int) -> PoissonDraw:
    """Refuse rounds that are so small that some may have no client."""
    empty = plan.rounds * (1 - sampling.rate) ** units
    if empty > EMPTY * mean.delta:
        raise FedloomError(
            f"selection poisson draws {sampling.expected:g} of {units} on average, and a round without any has a "
            f"probability of {empty / plan.rounds:.2g}, too much for delta={mean.delta:g}: raise selection.rate."
        )
    return sampling
