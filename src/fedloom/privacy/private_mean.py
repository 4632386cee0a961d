"""Central differential privacy: the mean of clipped changes, with Gaussian noise that the server adds.

``(sum_i clip(change_i, C) + N(0, (noise * C)²)) / (expected number of clients)``. Every client counts alike, and the
denominator is the same in every round, however many clients were drawn: the sum changes by at most C with one client.
A change that is not finite counts as zero.
McMahan, Ramage, Talwar and Zhang, Learning Differentially Private Recurrent Language Models, ICLR 2018,
https://arxiv.org/abs/1710.06963 (the fixed denominator qN).

With ``quantile`` the clip norm follows that quantile of the changes' norms: a noisy count of the clients below it moves
it, ``C <- C * exp(-rate * (count / expected - quantile))``, and pays with a part of the noise. Andrew, Thakkar, McMahan
and Ramaswamy, Differentially Private Learning with Adaptive Clipping, NeurIPS 2021, https://arxiv.org/abs/1905.03871,
algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedloom.aggregation.changes import changes_of, moved_by
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.privacy import PlannedRun
from fedloom.core.settings import OpenShare, Positive
from fedloom.privacy.accounting import noise_for
from fedloom.privacy.clipping import clip_rows, norms_of
from fedloom.privacy.ledger import PrivacyLedger
from fedloom.privacy.mean_ledger import mean_ledger, sampling_of, sums_per_round
from fedloom.privacy.noise_settings import SCORES, Noise, multiplier_of, planned_noise
from fedloom.privacy.secure_random import secure_normal

COUNT_NOISE = 20
"""The deviation of the noise on a count is the expected number of clients divided by this (the paper's choice)."""


@dataclass(frozen=True)
class PrivateMean(Aggregator):
    """The mean of clipped changes with Gaussian noise: differential privacy with a server that is trusted.

    Args:
        noise: The deviation of the noise on the sum, divided by the clip norm (the noise multiplier); by default what
            ``epsilon`` needs over the run, and 1 without.
        clip: The largest norm of a change; the first one if it is adapted.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget: the run stops before it is exceeded. None for any.
        quantile: The quantile of the norms that the clip norm follows; None for a fixed clip norm.
        rate: How fast the clip norm follows.
        seeded: Whether clients and noise are drawn from the run's seed, so that the run can be repeated. Whoever knows
            the seed can then subtract the noise: its privacy is for study only, and epsilon does not count on draws.
    """

    protects: ClassVar[str] = "noise that the server adds"

    needs: ClassVar[Facts] = {
        Fact.ONLY_MEANS: "adds noise to nothing but the mean of the replies: use fedavg, fedprox or fedrep; a method "
        "of your own that uses nothing but replies.mean says so with grants = (Fact.ONLY_MEANS,)",
        Fact.ALL_ANSWER: "does not protect who is silent, which clients' data decide: leave out one of the two",
        Fact.BLIND_DRAW: "does not protect what a selector looks at: use selection poisson",
        Fact.KNOWN_UNITS: "does not protect what groups of clients are formed by: use fedseq with given chains, and "
        "selection poisson",
        Fact.SCORES_STAY: SCORES,
        Fact.CONSTANT_DATA: "counts draws of the same clients in all rounds: leave out one of the two",
        Fact.OWN_INFLUENCE: "covers by its noise what one client adds to the sum, and not what it changes of the "
        "others' weights: let clients add the noise (channel localnoise, or sample_privacy), since nothing that a rule "
        "does with noisy updates costs privacy",
    }

    noise: Noise | None = None
    clip: Positive = 1.0
    delta: OpenShare = 1e-5
    epsilon: Positive | None = None
    quantile: OpenShare | None = None
    rate: Positive = 0.2
    seeded: bool = False

    @property
    def breaks(self) -> Facts:  # type: ignore[override]
        """What other parts cannot rely on, and why."""
        return {Fact.HIDDEN_DRAWS: "with seeded draws clients from the run's seed"} if self.seeded else {}

    @property
    def multiplier(self) -> float:
        """The deviation of the noise, divided by the clip norm."""
        return multiplier_of("privatemean", self.noise, self.epsilon)

    def planned(self, plan: PlannedRun) -> Self:
        """The same with the noise that keeps to ``epsilon`` in all rounds."""

        def find(epsilon: float) -> float:
            return noise_for(sampling_of(self, plan), epsilon, plan.rounds, self.delta, sums_per_round(plan))

        return replace(self, noise=planned_noise(self.noise, self.epsilon, find))

    def ledger(self, plan: PlannedRun) -> PrivacyLedger:
        """The ledger of a run with this mean."""
        return mean_ledger(self, plan)

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The noisy mean of clipped changes; the run's weights are not used."""
        expected = context.expected
        if expected is None:
            raise FedloomError("privatemean needs to know how clients are drawn: use selection poisson or random.")
        changes = changes_of(rows, context)
        clip = float(context.memory.get("clip", torch.tensor(self.clip, dtype=torch.float64)))
        deviation = clip * (self.multiplier if self.quantile is None else self.noise_beside_a_count(expected))
        total = clip_rows(changes, clip).sum(0)
        change = (total + deviation * self._normal("noise", changes.shape[1], context).to(total)) / expected
        if self.quantile is not None:
            context.memory["clip"] = torch.tensor(
                self._next_clip(clip, changes, expected, context), dtype=torch.float64
            )
        return moved_by(change, context)

    def noise_beside_a_count(self, expected: float) -> float:
        """The noise multiplier of the sum that, with the noise of the count, spends as much as ``noise`` alone.

        Args:
            expected: How many clients a round has on average.
        """
        left = self.multiplier**-2 - (expected / COUNT_NOISE) ** -2
        if left <= 0:
            raise FedloomError(
                f"privatemean: with {expected:g} clients in a round the noisy count that adapts the clip norm spends "
                f"more than noise={self.multiplier:g} allows: draw more clients, lower the noise, or leave out "
                "quantile."
            )
        return float(left**-0.5)

    def _next_clip(self, clip: float, changes: Tensor, expected: float, context: AggregationContext) -> float:
        """The clip norm of the next round. A bit is -1/2 or 1/2, and 1/2 where a client counts as zero: 1 apart."""
        bits = (norms_of(changes) <= clip).double() - 0.5  # not so for a norm that is not finite
        count = float(bits.sum()) + expected / COUNT_NOISE * float(self._normal("count", 1, context))
        return clip * math.exp(-self.rate * (count / expected + 0.5 - (self.quantile or 0)))

    def _normal(self, purpose: str, count: int, context: AggregationContext) -> Tensor:
        if not self.seeded:
            return secure_normal(count)
        generator = context.generator(f"privatemean/{purpose}/{context.reply}")
        return torch.randn(count, generator=generator, dtype=torch.float64)
