"""Ledgers of single clients: what the noise that a client adds itself has spent of its privacy so far.

Clients differ: in how many samples they have, and in how often they took part. A record has the largest epsilon of any
client. Epsilon grows with the sampling rate and with the number of uses, so that maximum needs only a few of them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fedloom.core.errors import FedloomError
from fedloom.privacy.accounting import LossDistribution, guarded_epsilon
from fedloom.privacy.sampling import EveryClient, PoissonDraw, sampling_rate
from fedloom.privacy.skellam import SkellamShares

CLIENT_GRID = 2e-3
"""The grid of privacy losses for single clients: within 0.2 % of the finer one of a whole run, and never below it."""


log = logging.getLogger("fedloom")


class ClientLedger:
    """The base of ledgers of single clients: they say what one client has spent after some uses."""

    budget: float | None

    def uses(self, steps: int) -> int:
        """How often a client that made this many steps in an exchange has used its noise: once, unless steps count.

        Args:
            steps: How many gradient steps it made.
        """
        return 1

    def mechanism(self, samples: int) -> str:
        """What the epsilon of a use depends on, as a text; budget and delta are not part of it.

        Args:
            samples: How many training samples the client has.
        """
        raise TypeError(f"{type(self).__name__} has no mechanism")

    def epsilon(self, samples: int, uses: int) -> float:
        """The epsilon of one client; it grows with the uses and does not grow with the samples.

        Args:
            samples: How many training samples it has.
            uses: How often it used its noise.
        """
        raise TypeError(f"{type(self).__name__} has no epsilon")

    def spent(self, samples: Sequence[int], uses: Sequence[int]) -> float:
        """The largest epsilon of any client.

        Args:
            samples: How many samples each client has.
            uses: How often each of them used its noise.
        """
        front: list[tuple[int, int]] = []  # fewer samples first: a larger rate; those with more uses than all before
        for count, used in sorted(zip(samples, uses, strict=True), key=lambda pair: (pair[0], -pair[1])):
            if used > (front[-1][1] if front else 0):
                front.append((count, used))
        if not front:
            return 0.0

        def search(first: int, last: int, best: float) -> float:
            """The largest of ``best`` and those from first to last, which the worst of both bounds."""
            bound = self.epsilon(front[first][0], front[last][1])
            if bound <= best or first == last:
                return max(best, bound)
            middle = (first + last) // 2
            return search(middle + 1, last, search(first, middle, best))

        return search(0, len(front) - 1, max(self.epsilon(*front[0]), self.epsilon(*front[-1])))

    def over_budget(self, samples: Sequence[int], uses: Sequence[int]) -> set[int]:
        """The places of the clients who would have spent more than they may.

        Args:
            samples: How many samples each client has.
            uses: How often each of them would have used its noise.
        """
        budget = self.budget
        if budget is None or self.spent(samples, uses) <= budget:
            return set()
        return {place for place, pair in enumerate(zip(samples, uses, strict=True)) if self.epsilon(*pair) > budget}


@dataclass(frozen=True)
class SampleLedger(ClientLedger):
    """The ledger of DP-SGD: a client's samples are drawn at its own rate, in every step that it makes.

    Neighbours differ in one sample, whose gradient counts as zero in one of them: how many samples a client has is
    taken for public, since it decides the rate, the number of steps and the client's weight.

    Args:
        noise: The deviation of the noise, divided by the clip norm.
        delta: The probability with which epsilon may not hold.
        batch_size: How many samples a step has on average; 0 for all.
        budget: The epsilon that a client may spend; None for any.
    """

    noise: float
    delta: float
    batch_size: int
    budget: float | None = None

    def uses(self, steps: int) -> int:
        """A step is one use."""
        return steps

    def mechanism(self, samples: int) -> str:
        """The noise, and the rate at which samples are drawn."""
        return f"sample_privacy.noise {self.noise!r} at rate {sampling_rate(samples, self.batch_size)!r}"

    def epsilon(self, samples: int, uses: int) -> float:
        """The epsilon of one client.

        Args:
            samples: How many samples it has.
            uses: How many steps it made.
        """
        return _sampled_epsilon(sampling_rate(samples, self.batch_size), self.noise, uses, self.delta)


@dataclass(frozen=True)
class LocalLedger(ClientLedger):
    """The ledger of noise that a client adds to its own updates: nobody knows less about who took part, so that
    sampling does not help, and neighbours are any two sets of samples of one client.

    Args:
        noise: The deviation of the noise, divided by the clip norm.
        delta: The probability with which epsilon may not hold.
        mechanisms: How many noisy tensors one reply has.
        budget: The epsilon that a client may spend; None for any.
    """

    noise: float
    delta: float
    mechanisms: int = 1
    budget: float | None = None

    def mechanism(self, samples: int) -> str:
        """The noise, and on how many tensors it is."""
        return f"localnoise.noise {self.noise!r} on {self.mechanisms} tensors"

    def epsilon(self, samples: int, uses: int) -> float:
        """The epsilon of a client: two of its updates differ by at most twice the clip norm.

        Args:
            samples: How many samples it has; that does not matter.
            uses: How many replies it made.
        """
        return _sampled_epsilon(1.0, self.noise / 2 / self.mechanisms**0.5, uses, self.delta)


@dataclass(frozen=True)
class SumLedger(ClientLedger):
    """The ledger of noise in shares under a secure sum: a client's row was in some sums, of which the noise is known.

    Args:
        shares: The noise of a sum.
        delta: The probability with which epsilon may not hold.
        budget: The epsilon that a client may spend; None for any.
    """

    shares: SkellamShares
    delta: float
    budget: float | None = None

    def mechanism(self, samples: int) -> str:
        """The noise of a sum and the rows that it is for, however many clients share it."""
        shares = self.shares
        return f"privatesum.noise {shares.noise!r} on {shares.width} integers of norm {shares.largest_norm!r}"

    def epsilon(self, samples: int, uses: int) -> float:
        """The epsilon of a client whose row was in some sums.

        Args:
            samples: How many samples it has; that does not matter.
            uses: In how many.
        """
        return _epsilon_of_sums(self.shares, uses, self.delta)


@lru_cache(maxsize=4096)
def _epsilon_of_sums(shares: SkellamShares, uses: int, delta: float) -> float:
    return shares.epsilon(uses, delta)


@lru_cache(maxsize=256)
def _distribution(rate: float, noise: float) -> LossDistribution:
    return LossDistribution(EveryClient() if rate == 1 else PoissonDraw(rate), noise, CLIENT_GRID)


@lru_cache(maxsize=1 << 16)
def _sampled_epsilon(rate: float, noise: float, uses: int, delta: float) -> float:
    return guarded_epsilon(lambda: _distribution(rate, noise).epsilon(uses, delta)) if uses else 0.0


def check_first_reply(name: str, noise: float, delta: float, budget: float | None, first: float, seeded: bool) -> None:
    """Refuse noise of which the first reply spends too much, and warn of noise that others can compute.

    Args:
        name: What users call the noise.
        noise: Its deviation, divided by the clip norm.
        delta: The probability with which epsilon may not hold.
        budget: The epsilon that a client may spend; None for any.
        first: The epsilon of the first reply.
        seeded: Whether the noise is drawn from the run's seed.
    """
    if not math.isfinite(first):
        raise FedloomError(f"{name}: noise={noise:g} is so little that it protects nobody: raise it.")
    if budget is not None and first > budget:
        raise FedloomError(
            f"the first reply alone spends epsilon {first:.3g} at delta {delta:g}, and the budget is {budget:g}: raise "
            f"the noise of {name}."
        )
    if seeded:
        log.warning("the noise of clients is drawn from the run's seed: its privacy is for study only")
