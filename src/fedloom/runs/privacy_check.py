"""The privacy of a run: its ledger, or the reason why its settings protect nobody.

Refused before any training: a method that uses more of a reply than its noisy mean, selectors that look at clients'
losses, and what would bypass the noise.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.methods.fedseq.fedseq import FedSeq
from fedloom.privacy.ledger import PrivacyLedger
from fedloom.privacy.private_mean import PrivateMean
from fedloom.privacy.sampling import ClientSampling, EveryClient, FixedSize, PoissonChains, PoissonDraw
from fedloom.selection.poisson import Poisson
from fedloom.selection.random import Random

if TYPE_CHECKING:
    from fedloom.config.schema import RunConfig

log = logging.getLogger("fedloom")

EMPTY = 0.01
"""The share of delta that rounds without a client may take: they are drawn again, which the accounting leaves out."""


def privacy_ledger(
    config: RunConfig, algorithm: Algorithm, clients: int, deployed: bool = False
) -> PrivacyLedger | None:
    """The ledger of a run, if its aggregator adds noise; settings that protect nobody are refused.

    Args:
        config: The config of the run.
        algorithm: The method of the run.
        clients: How many clients may take part.
        deployed: Whether the clients are machines, which may be away when they are drawn.
    """
    aggregator = config.aggregation
    if not isinstance(aggregator, PrivateMean):
        return None
    if deployed:
        raise FedloomError(
            "privatemean is for simulations: in a deployment the drawn sites may be away, and what the bounds on "
            "updates leave out depends on all of them, which the accounting does not cover: use another aggregator."
        )
    quiet = [type(step).__name__.lower() for step in config.channel if step.may_be_silent]
    if quiet:
        raise FedloomError(
            f"who is silent with {quiet[0]} depends on the clients' data, which privatemean does not protect: leave "
            f"{quiet[0]} out of the channel."
        )
    name = str(config.method.get("name", "the method"))
    _check_method(name, algorithm)
    if config.server_optimizer is None and config.weight_by != "uniform":
        log.info("privatemean counts every client alike: weight_by=%s is not used", config.weight_by)
    sampling = _sampling(config, algorithm, clients)
    ledger = PrivacyLedger(sampling, aggregator.noise, aggregator.delta, len(algorithm.averaged), aggregator.epsilon)
    if aggregator.quantile is not None:
        aggregator.noise_beside_a_count(ledger.expected)
    if not math.isfinite(ledger.spent(1)):
        raise FedloomError(
            f"aggregation.noise={aggregator.noise:g} is so little that it protects nobody: fedloom privacy says how "
            "much a budget needs."
        )
    if ledger.budget is not None and ledger.spent(1) > ledger.budget:
        raise FedloomError(
            f"the first round alone spends epsilon {ledger.spent(1):.3g} at delta {aggregator.delta:g}, and the budget "
            f"is {ledger.budget:g}: raise aggregation.noise (fedloom privacy says by how much), or draw fewer clients."
        )
    if aggregator.seeded:
        log.warning("the noise is drawn from the run's seed: its privacy is for study only")
    return ledger


def _check_method(name: str, algorithm: Algorithm) -> None:
    """Refuse a method that uses more of its clients' replies than noisy means."""
    if not algorithm.averaged:
        raise FedloomError(
            f"the server of {name}, with these settings, uses more of its clients' replies than their mean, and only "
            "the mean gets noise: use fedavg, fedprox or fedrep. A method of your own that uses nothing but "
            'replies.mean says so with averaged = ("row",).'
        )


def _sampling(config: RunConfig, algorithm: Algorithm, clients: int) -> ClientSampling:
    selection = config.selection
    if isinstance(algorithm, FedSeq):
        if not (isinstance(selection, Poisson) and algorithm.chains):
            raise FedloomError(
                "chains are private if they are given (fedseq: chains) and drawn by selection poisson: chains formed "
                "by clients' models give away something about their data."
            )
        chains = len(algorithm.chains)
        return _checked_poisson(PoissonChains(selection.rate, chains), config, chains)
    if isinstance(selection, Poisson):
        return _checked_poisson(PoissonDraw(selection.rate, clients), config, clients)
    if type(selection) is Random:
        number = selection.per_round(clients)
        return EveryClient(clients) if number == clients else FixedSize(number, clients)
    raise FedloomError(
        f"selection {type(selection).__name__.lower()} looks at what clients have, which privatemean does not protect: "
        "use selection poisson."
    )


def _checked_poisson(sampling: PoissonDraw, config: RunConfig, clients: int) -> PoissonDraw:
    """Refuse rounds that are so small that some may have no client."""
    aggregator = config.aggregation
    assert isinstance(aggregator, PrivateMean)  # noqa: S101
    empty = config.rounds * (1 - sampling.rate) ** clients
    if empty > EMPTY * aggregator.delta:
        raise FedloomError(
            f"selection poisson draws {sampling.expected:g} of {clients} on average, and a round without any has a "
            f"probability of {empty / config.rounds:.2g}, too much for delta={aggregator.delta:g}: raise "
            "selection.rate."
        )
    return sampling
