"""Noise that clients add to their own updates: its ledger, or the reason why the settings of a run do not protect them.

It is noise of every client's own (``localnoise``), or shares of the noise of a secure sum (``privatesum``). Refused
before any training: methods whose clients send more than updates, and whatever decides by updates without noise.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from fedloom.core.algorithm import Algorithm
from fedloom.core.declarations import Model, Update
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import LocalLedger, SumLedger
from fedloom.privacy.local_noise import LocalNoise
from fedloom.privacy.private_sum import PrivateSum
from fedloom.runs.sample_privacy_check import check_selection, refuse_scores

if TYPE_CHECKING:
    from fedloom.config.schema import RunConfig

log = logging.getLogger("fedloom")


def local_ledger(config: RunConfig, algorithm: Algorithm, deployed: bool = False) -> LocalLedger | None:
    """The ledger of a run whose clients add noise to their updates; settings that do not protect them are refused.

    Args:
        config: The config of the run.
        algorithm: The method of the run.
        deployed: Whether the clients are machines, which send their scores.
    """
    step = next((step for step in config.channel if isinstance(step, LocalNoise)), None)
    if step is None:
        return None
    sent = algorithm.averaged or algorithm.summed or tuple(algorithm.sends)
    bare = [reply for reply in sent if not isinstance(algorithm.sends.get(reply), Model | Update)]
    if bare:
        raise FedloomError(
            f"clients of {config.method.get('name', 'the method')}, with these settings, may send {bare[0]}, which is "
            "no update and gets no noise from localnoise: use fedavg, fedprox, fedrep or feddyn."
        )
    ledger = LocalLedger(step.noise, step.delta, len(sent), step.epsilon)
    _check(config, step, ledger.epsilon(1, 1), deployed)
    return ledger


def sum_ledger(config: RunConfig, algorithm: Algorithm, task: Task, deployed: bool = False) -> SumLedger | None:
    """The ledger of a run whose clients add shares of noise under a secure sum; settings that do not protect are
    refused.

    Args:
        config: The config of the run.
        algorithm: The method of the run.
        task: The task of the run.
        deployed: Whether the clients are machines, which send their scores.
    """
    step = next((step for step in config.channel if isinstance(step, PrivateSum)), None)
    if step is None:
        return None
    widest = task.layout.width * len(algorithm.summed)  # of narrower rows the noise spends less
    ledger = SumLedger(step.shares(widest, max(2, task.federation.clients)), step.delta, step.epsilon)
    _check(config, step, ledger.epsilon(1, 1), deployed)
    return ledger


def _check(config: RunConfig, step: LocalNoise | PrivateSum, first: float, deployed: bool) -> None:
    """Refuse what would bypass the noise, and noise of which the first reply spends too much."""
    name = type(step).__name__.lower()
    check_selection(config.selection, name)
    for other in config.channel:
        if other.may_be_silent:
            raise FedloomError(
                f"{type(other).__name__.lower()} decides by updates without noise who sends nothing, which {name} does "
                "not protect: leave out one of them."
            )
    if deployed:
        refuse_scores(config)
    if not math.isfinite(first):
        raise FedloomError(f"{name}: noise={step.noise:g} is so little that it protects nobody: raise it.")
    if step.epsilon is not None and first > step.epsilon:
        raise FedloomError(
            f"the first reply alone spends epsilon {first:.3g} at delta {step.delta:g}, and the budget is "
            f"{step.epsilon:g}: raise the noise of {name}."
        )
    if step.seeded:
        log.warning("the noise of clients is drawn from the run's seed: its privacy is for study only")
