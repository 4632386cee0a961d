"""Per-example differential privacy of local training (DP-SGD): its settings.

Abadi et al., Deep Learning with Differential Privacy, CCS 2016, https://arxiv.org/abs/1607.00133: every step draws a
client's samples independently, clips the gradient of each to a norm, adds them and Gaussian noise, and divides by the
number of samples that a step has on average. Whatever a client then sends is protected, also from the server.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.privacy import PlannedRun
from fedloom.core.settings import OpenShare, Positive, check_settings
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.privacy.noise_settings import SCORES, Noise, most_replies, multiplier_of, planned_noise, smallest_noise

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class SamplePrivacy:
    """Differential privacy of single samples: local training by DP-SGD.

    Args:
        noise: The deviation of the noise on the sum of a step, divided by the clip norm (the noise multiplier); by
            default what ``epsilon`` needs for as many steps as a client makes in the run, and 1 without.
        clip: The largest norm of the gradient of one sample.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget of every client: what would exceed it is not sent. None for any.
        seeded: Whether samples and noise are drawn from the run's seed, so that the run can be repeated. Whoever knows
            the seed can then subtract the noise: its privacy is for study only.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    needs: ClassVar[Facts] = {
        Fact.ONLY_TRAINING: "protects samples in training only: use fedavg, fedprox, scaffold or fedrep; a method of "
        "your own says so with grants = (Fact.ONLY_TRAINING,)",
        Fact.BLIND_DRAW: "does not protect what a selector looks at: use selection random or poisson",
        Fact.SAME_WEIGHTS: "adds noise to all weights, also to those that a client did not get: leave out one",
        Fact.SEPARATE_SAMPLES: "clips the gradient of each sample: use a task with independent samples",
        Fact.KNOWN_STEPS: "counts one draw of samples for each step, and makes the steps of all clients together",
        Fact.CONSTANT_DATA: "counts draws from the same samples in all rounds: leave out task.drift",
        Fact.SCORES_STAY: SCORES,
    }
    breaks: ClassVar[Facts] = {
        Fact.MIXED_MODELS: "is made for one model: leave it out, or task.models",
        Fact.HIDDEN_DRAWS: "has records of what the clients that were drawn have spent",
        Fact.MEAN_GRADIENT: "clips the gradient of each sample: use execution vectorised, loop or auto",
    }

    noise: Noise | None = None
    clip: Positive = 1.0
    delta: OpenShare = 1e-5
    epsilon: Positive | None = None
    seeded: bool = False

    def __post_init__(self) -> None:
        check_settings(self, "sample_privacy")

    @property
    def multiplier(self) -> float:
        """The deviation of the noise, divided by the clip norm."""
        return multiplier_of("sample_privacy", self.noise, self.epsilon)

    def planned(self, plan: PlannedRun) -> Self:
        """The same with the noise that keeps every client to ``epsilon`` in all rounds."""

        def find(epsilon: float) -> float:
            if plan.deployed:
                raise FedloomError(
                    "sample_privacy.epsilon without noise needs the numbers of samples, which only sites know: give "
                    "sample_privacy.noise too (fedloom privacy --mechanism sample_privacy says how much)."
                )
            replies, sizes = most_replies(plan), plan.task.federation.train.sizes.tolist()
            steps = [replies * plan.algorithm.steps_per_turn(plan.work, size) for size in sizes]

            def spends(noise: float) -> float:
                return SampleLedger(noise, self.delta, plan.work.batch_size).spent(sizes, steps)

            return smallest_noise(spends, epsilon, f"{max(steps)} steps")

        return replace(self, noise=planned_noise(self.noise, self.epsilon, find))

    def client_ledger(self, plan: PlannedRun) -> SampleLedger:
        """The ledger of clients that train by DP-SGD; a ``FedloomError`` says that the settings protect nobody."""
        ledger = SampleLedger(self.multiplier, self.delta, plan.work.batch_size, self.epsilon)
        sizes: list[int] = plan.task.federation.train.sizes.tolist()
        steps = [plan.algorithm.steps_per_turn(plan.work, size) for size in sizes]
        first = ledger.spent(sizes, steps)
        if not math.isfinite(first):
            raise FedloomError(
                f"sample_privacy: noise={self.multiplier:g} is so little that it protects nobody: raise it."
            )
        if len(ledger.over_budget(sizes, steps)) == len(sizes):
            raise FedloomError(
                f"the first round alone spends epsilon {first:.3g} at delta {self.delta:g}, and the budget is "
                f"{ledger.budget:g}: raise sample_privacy.noise, take smaller batches, or train less per round."
            )
        if self.seeded:
            log.warning("samples and noise are drawn from the run's seed: the privacy of samples is for study only")
        return ledger
