"""A secure sum with noise in shares: the server learns the noisy sum of its clients' updates, and nothing else.

Each client clips its update, rounds it to integers and adds its share of Skellam noise (``skellam.py``) before masks
hide the row. Nobody has to be trusted with single updates, as with noise of every client's own, and the noise of a sum
is that of one server, as with a trusted one. A share is sized for the fewest honest clients whose sum is ever opened:
the quorum of the secure sum, less those who may help the server. Clients themselves refuse to open the sum of fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.privacy import ClientPrivacy, PlannedRun
from fedloom.core.settings import OpenShare, Positive
from fedloom.core.task import Task
from fedloom.privacy.client_ledger import SumLedger, check_first_reply
from fedloom.privacy.noise_settings import SCORES, Noise, most_replies, multiplier_of, planned_noise, smallest_noise
from fedloom.privacy.secure_random import Uniform, secure_uniform
from fedloom.privacy.skellam import SkellamShares
from fedloom.secure.quantise import Grid, tensor_of_words
from fedloom.secure.secure_sum import MaskedSum
from fedloom.secure.sum_step import SumSession

MOST_NUMBERS = 1 << 28
"""The words of a sum have room for the noise of rows of this many numbers."""


@dataclass(frozen=True)
class PrivateSum(MaskedSum):
    """Let the server learn nothing of its clients but a noisy sum of their clipped updates: distributed privacy.

    Args:
        bits: The bits of a number.
        dropouts: The largest share of a round's clients that may stop answering in it; with more of them the round is
            played again.
        colluders: The largest share that may help the server; their noise does not count.
        least_clients: The fewest clients that a sum is asked of; a site takes part in no smaller one.
        noise: The deviation of the noise on the sum of the fewest clients, divided by the clip norm; by default what
            ``epsilon`` needs for as many sums as a client is in, and 1 without.
        clip: The largest norm of all that a client sends, times its weight over the largest weight.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget: the run stops before a client has spent more. None for any.
        seeded: Whether the noise is drawn from the run's seed, so that the run can be repeated. Whoever knows the seed
            can then subtract the noise: its privacy is for study only.
    """

    covers_replies: ClassVar[bool] = True
    needs: ClassVar[Facts] = {
        Fact.BLIND_DRAW: "does not protect what a selector looks at: use selection random or poisson",
        Fact.SCORES_STAY: SCORES,
    }

    noise: Noise | None = None
    clip: Positive = 1.0
    delta: OpenShare = 1e-5
    epsilon: Positive | None = None
    seeded: bool = False

    @property
    def multiplier(self) -> float:
        """The deviation of the noise, divided by the clip norm."""
        return multiplier_of("privatesum", self.noise, self.epsilon)

    def planned(self, plan: PlannedRun) -> Self:
        """The same with the noise that keeps every client to ``epsilon`` in all rounds."""

        def find(epsilon: float) -> float:
            sums = most_replies(plan)
            return smallest_noise(
                lambda noise: replace(self, noise=noise)._ledger(plan).epsilon(1, sums), epsilon, f"{sums} sums"
            )

        return replace(self, noise=planned_noise(self.noise, self.epsilon, find))

    def _ledger(self, plan: PlannedRun) -> SumLedger:
        widest = plan.task.layout.width * len(plan.algorithm.sends)  # of narrower rows the noise spends less
        return SumLedger(self.shares(widest, max(2, plan.task.federation.clients)), self.delta, self.epsilon)

    def client_ledgers(self, plan: PlannedRun) -> dict[str, ClientPrivacy]:
        """The ledger of shares of noise under a sum."""
        ledger = self._ledger(plan)
        check_first_reply("privatesum", self.multiplier, self.delta, self.epsilon, ledger.epsilon(1, 1), self.seeded)
        return {"sum": ledger}

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse also a model that is too wide for the words of the sum."""
        super().check(algorithm, task, before)
        if task.layout.width * len(algorithm.sends) > MOST_NUMBERS:
            raise FedloomError(f"privatesum adds rows of at most {MOST_NUMBERS:,} numbers: use a smaller model.")

    def fewest(self, clients: int) -> int:
        """The fewest honest clients in a sum that is opened.

        Args:
            clients: How many are asked.
        """
        return max(1, self._terms("", 0, tuple(range(clients)), 0).fewest_honest)

    def shares(self, width: int, clients: int) -> SkellamShares:
        """How much noise every client adds.

        Args:
            width: How many numbers a row has.
            clients: How many clients are asked.
        """
        step = Grid(self.bits, self.clip, clients).step
        return SkellamShares(self.multiplier, self.clip, step, width, self.fewest(clients))

    def grid(self, clients: int) -> Grid:
        """The integers that stand for numbers, in words with room for the noise."""
        if self.noise is None and self.epsilon is not None:  # it is asked again once the noise is planned
            return Grid(self.bits, self.clip, clients)
        levels = Grid(self.bits, self.clip, 1).levels
        room = math.ceil(self.shares(MOST_NUMBERS, clients).largest_noise(clients) / levels)
        return Grid(self.bits, self.clip, clients + room)

    def code(self, values: Tensor, weights: Tensor, session: SumSession, random: Sequence[torch.Generator]) -> Tensor:
        """A row of integers per client: its weight, that it was not scaled, and its clipped values with noise."""
        clients = len(session.ids)
        grid, shares, rows = self.grid(clients), self.shares(values.shape[1], clients), []
        norms = values.norm(dim=1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
        clipped = values * (self.clip / norms).clamp(max=1.0)
        for row, weight, generator in zip(clipped, weights.tolist(), random, strict=True):
            words, _ = grid.quantise(row[None], generator)
            integers = torch.from_numpy(words.view(f"int{grid.word}").astype("int64"))
            noisy = shares.add_noise(integers, self._uniform(generator)).numpy()[0]
            rows.append(tensor_of_words(grid.pack([weight, 0], noisy.astype(grid.dtype))))
        return torch.stack(rows)

    def _uniform(self, generator: torch.Generator) -> Uniform:
        if not self.seeded:
            return secure_uniform
        return lambda count: 1 - torch.rand(count, generator=generator, dtype=torch.float64).numpy()
