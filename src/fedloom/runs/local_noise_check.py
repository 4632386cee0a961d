"""Noise that clients add to their own updates: its ledger, or the reason why the settings of a run do not protect them.

Refused before any training: methods whose clients send more than updates, and whatever decides by updates without
noise.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from fedloom.channel.privacy.client_ledger import LocalLedger
from fedloom.channel.privacy.local_noise import LocalNoise
from fedloom.core.algorithm import Algorithm
from fedloom.core.declarations import Model, Update
from fedloom.core.errors import FedloomError
from fedloom.runs.sample_privacy_check import check_selection, refuse_scores

if TYPE_CHECKING:
    from fedloom.runs.config_schema import RunConfig

log = logging.getLogger("fedloom")


def local_ledger(config: RunConfig, algorithm: Algorithm, deployed: bool = False) -> LocalLedger | None:
    """The ledger of a run whose clients add noise to their updates; settings that do not protect them are refused.

    Args:
        config: The config of the run.
        algorithm: The method of the run.
        deployed: Whether the clients are machines, which send their scores.
    """
    steps = [step for step in config.channel if isinstance(step, LocalNoise)]
    if not steps:
        return None
    step, name = steps[0], str(config.method.get("name", "the method"))
    sent = algorithm.averaged or algorithm.summed or tuple(algorithm.sends)
    bare = [reply for reply in sent if not isinstance(algorithm.sends.get(reply), Model | Update)]
    if bare:
        raise FedloomError(
            f"clients of {name}, with these settings, may send {bare[0]}, which is no update and gets no noise from "
            "localnoise: use fedavg, fedprox, fedrep or feddyn."
        )
    check_selection(config.selection, "localnoise")
    for other in config.channel:
        if other.may_be_silent:
            raise FedloomError(
                f"{type(other).__name__.lower()} decides by updates without noise who sends nothing, which localnoise "
                "does not protect: leave out one of them."
            )
    if deployed:
        refuse_scores(config)
    ledger = LocalLedger(step.noise, step.delta, len(sent), step.epsilon)
    first = ledger.epsilon(1, 1)
    if not math.isfinite(first):
        raise FedloomError(f"localnoise: noise={step.noise:g} is so little that it protects nobody: raise it.")
    if step.epsilon is not None and first > step.epsilon:
        raise FedloomError(
            f"the first reply alone spends epsilon {first:.3g} at delta {step.delta:g}, and the budget is "
            f"{step.epsilon:g}: raise the noise of localnoise."
        )
    if step.seeded:
        log.warning("the noise of clients is drawn from the run's seed: its privacy is for study only")
    return ledger
