"""Local differential privacy: each client clips its own update and adds Gaussian noise before it leaves.

``clip(u, C) + N(0, (noise * C)²)``, made where the client is. Nobody has to be trusted; the price is that a mean over n
clients has only ``1 / sqrt(n)`` of a single client's noise. Two updates that a client could send differ by at most 2C,
whatever its samples are, and it does not help that others do not know who was drawn: the server does. Every reply is
one use of the Gaussian mechanism (Balle and Wang, ICML 2018, https://arxiv.org/abs/1805.06530).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.privacy import ClientPrivacy, PlannedRun
from fedloom.core.settings import OpenShare, Positive
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import LocalLedger, check_first_reply
from fedloom.privacy.clipping import clip_rows
from fedloom.privacy.noise_settings import SCORES, Noise, most_replies, multiplier_of, planned_noise, smallest_noise
from fedloom.privacy.secure_random import secure_normal


@dataclass(frozen=True)
class LocalNoise(ChannelStep):
    """A client clips its update and adds Gaussian noise: local differential privacy.

    Args:
        noise: The deviation of the noise, divided by the clip norm; by default what ``epsilon`` needs for as many
            replies as a client makes in the run, and 1 without.
        clip: The largest norm of an update.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget of every client: what would exceed it is not sent. None for any.
        seeded: Whether the noise is drawn from the run's seed, so that the run can be repeated. Whoever knows the seed
            can then subtract the noise: its privacy is for study only.
    """

    grants: ClassVar[Collection[Fact]] = (Fact.ADDABLE,)
    covers_replies: ClassVar[bool] = True

    needs: ClassVar[Facts] = {
        Fact.ONLY_UPDATES: "adds noise to updates, and to nothing else: use fedavg, fedprox, fedrep or feddyn",
        Fact.BLIND_DRAW: "does not protect what a selector looks at: use selection random or poisson",
        Fact.ALL_ANSWER: "does not protect who sends nothing, which bare updates decide: leave out one of them",
        Fact.SCORES_STAY: SCORES,
    }

    breaks: ClassVar[Facts] = {Fact.HIDDEN_DRAWS: "has records of what the clients that were drawn have spent"}

    noise: Noise | None = None
    clip: Positive = 1.0
    delta: OpenShare = 1e-5
    epsilon: Positive | None = None
    seeded: bool = False

    @property
    def multiplier(self) -> float:
        """The deviation of the noise, divided by the clip norm."""
        return multiplier_of("localnoise", self.noise, self.epsilon)

    def planned(self, plan: PlannedRun) -> Self:
        """The same with the noise that keeps every client to ``epsilon`` in all rounds."""

        def find(epsilon: float) -> float:
            replies, tensors = most_replies(plan), len(plan.algorithm.sends)
            return smallest_noise(
                lambda noise: LocalLedger(noise, self.delta, tensors).epsilon(1, replies), epsilon, f"{replies} replies"
            )

        return replace(self, noise=planned_noise(self.noise, self.epsilon, find))

    def client_ledgers(self, plan: PlannedRun) -> dict[str, ClientPrivacy]:
        """The ledger of the noise on updates: one use for everything that a client sends at once."""
        ledger = LocalLedger(self.multiplier, self.delta, len(plan.algorithm.sends), self.epsilon)
        check_first_reply("localnoise", self.multiplier, self.delta, self.epsilon, ledger.epsilon(1, 1), self.seeded)
        return {"local": ledger}

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse steps before it: what they send beside their rows would leave without noise."""
        if before:
            raise FedloomError(
                f"localnoise must be the first step of the channel: what {type(before[0]).__name__.lower()} before it "
                "sends or keeps has no noise."
            )

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """Clipped rows with noise."""
        return clip_rows(rows, self.clip) + (self.multiplier * self.clip * self._normal(rows, sender)).to(rows), {}

    def _normal(self, rows: Tensor, sender: Sender) -> Tensor:
        if not self.seeded:
            return secure_normal(rows.numel()).view(rows.shape)
        width, generators = rows.shape[1], (sender.generator(place) for place in range(len(rows)))
        return torch.stack([torch.randn(width, generator=one, dtype=torch.float64) for one in generators])
