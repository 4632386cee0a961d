"""Plans: which noise a budget needs, or what a noise spends, before there is a run.

The same ledgers count that a run has, and what a run refuses is refused here: what is planned runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.selector import Draws
from fedloom.core.settings import OpenShare, check_value
from fedloom.privacy.accounting import epsilon_after
from fedloom.privacy.client_ledger import LocalLedger, SampleLedger, check_first_reply
from fedloom.privacy.mean_ledger import checked_poisson
from fedloom.privacy.noise_settings import Noise, most_turns, smallest_noise
from fedloom.privacy.private_sum import PrivateSum, check_width
from fedloom.privacy.sampling import ClientSampling, FixedSize, PoissonChains, PoissonDraw

ONE_SAMPLE = "one sample counts as zero"
ALL_SAMPLES = "any two sets of samples of one client"


@dataclass(frozen=True)
class Question:
    """What is to be planned: the noise for an epsilon, or the epsilon of a noise.

    Args:
        rounds: How many rounds there are.
        delta: The probability with which epsilon may not hold.
        epsilon: The budget; None if the noise is given.
        noise: The deviation of the noise, divided by the clip norm; None if the budget is given.
    """

    rounds: int
    delta: float
    epsilon: float | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        check_value("delta", self.delta, OpenShare)
        if (self.epsilon is None) == (self.noise is None):
            raise FedloomError("give an epsilon to learn the noise, or a noise to learn the epsilon: one of the two.")
        if self.noise is not None:
            check_value("noise", self.noise, Noise)

    def answer(self, spends: Callable[[float], float], uses: str, neighbours: str, clients: float | None) -> NoisePlan:
        """The plan of a mechanism.

        Args:
            spends: The epsilon that a noise spends.
            uses: How often it is used, in words.
            neighbours: What the guarantee compares.
            clients: What the noise of a mean is divided by; None where that is not known.
        """
        noise = self.noise
        if noise is None:
            noise = smallest_noise(spends, self.epsilon or 0.0, uses)
        return NoisePlan(self, noise, spends(noise), uses, neighbours, clients)


@dataclass(frozen=True)
class NoisePlan:
    """A noise, and what it spends.

    Args:
        question: What was asked.
        noise: The deviation of the noise, divided by the clip norm.
        epsilon: What the run spends.
        uses: How clients are drawn, or how often a client uses its noise, in words.
        neighbours: What the guarantee compares.
        mean_of: What the noise of a mean is divided by; None where that is not known.
    """

    question: Question
    noise: float
    epsilon: float
    uses: str
    neighbours: str
    mean_of: float | None


def plan_mean(asked: Question, sampling: ClientSampling) -> NoisePlan:
    """The plan of ``privatemean``.

    Args:
        asked: What is to be planned.
        sampling: How clients are drawn.
    """
    if isinstance(sampling, PoissonDraw) and sampling.clients is not None:
        checked_poisson(sampling, asked.rounds, asked.delta)

    def spends(noise: float) -> float:
        return epsilon_after(sampling, noise, asked.rounds, asked.delta)

    return asked.answer(spends, str(sampling), sampling.neighbours, sampling.expected)


def plan_samples(asked: Question, turns: int, samples: int, work: LocalWork) -> NoisePlan:
    """The plan of ``sample_privacy``.

    Args:
        asked: What is to be planned.
        turns: In how many rounds a client takes part at most.
        samples: How many training samples the smallest client has.
        work: The local work of a round.
    """
    steps = turns * work.steps_for(samples)

    def spends(noise: float) -> float:
        return SampleLedger(noise, asked.delta, work.batch_size).epsilon(samples, steps)

    return asked.answer(spends, f"{steps:,} steps of a client with {samples:,} samples at most", ONE_SAMPLE, None)


def plan_updates(asked: Question, turns: int, per_round: float | None) -> NoisePlan:
    """The plan of ``localnoise``.

    Args:
        asked: What is to be planned.
        turns: How many replies a client makes at most.
        per_round: How many clients a round has, if that is known.
    """

    def spends(noise: float) -> float:
        return LocalLedger(noise, asked.delta).epsilon(1, turns)

    # Independent noise of every client: that of their mean falls with the root of their number.
    mean_of = None if per_round is None else per_round**0.5
    return asked.answer(spends, f"{turns:,} replies of a client at most", ALL_SAMPLES, mean_of)


def plan_sums(
    asked: Question, sampling: ClientSampling | None, clients: int, parameters: int, clip: float
) -> NoisePlan:
    """The plan of ``privatesum``, with its usual bits and dropouts.

    Args:
        asked: What is to be planned.
        sampling: How the clients of a sum are drawn; None for all in every round.
        clients: How many clients there are.
        parameters: How many numbers a client sends.
        clip: The clip norm.
    """
    turns, per_round = turns_of(sampling, clients, asked.rounds), sampling.expected if sampling else float(clients)
    _check_sums(sampling, clients, asked.rounds, parameters)

    def step(noise: float) -> PrivateSum:
        return PrivateSum(noise=noise, clip=clip)

    def spends(noise: float) -> float:
        return step(noise).shares(parameters, clients).epsilon(turns, asked.delta)

    found = asked.answer(spends, f"{turns:,} sums with a client at most", ALL_SAMPLES, per_round)
    step(found.noise).grid(clients)  # the words of a sum have room for this much noise, or it is refused
    first = step(found.noise).shares(parameters, clients).epsilon(1, asked.delta)
    check_first_reply("privatesum", found.noise, asked.delta, asked.epsilon, first, seeded=False)
    return found


def _check_sums(sampling: ClientSampling | None, clients: int, rounds: int, parameters: int) -> None:
    """Refuse what a run with ``privatesum`` refuses: chains, wide rows, and sums of too few."""
    if isinstance(sampling, PoissonChains):
        raise FedloomError(
            "privatesum adds changes of one model, which chains hand on: plan with --sampling poisson or fixed."
        )
    check_width(parameters)
    usual = PrivateSum()
    number = sampling.number if isinstance(sampling, FixedSize) else clients
    if number < usual.least_clients:
        raise FedloomError(
            f"a sum of {number} client hides nothing: plan at least {usual.least_clients} clients per round."
        )
    usual.check_draws(Draws(rate=sampling.rate) if isinstance(sampling, PoissonDraw) else None, clients, rounds)


def turns_of(sampling: ClientSampling | None, clients: int | None, rounds: int) -> int:
    """In how many rounds a client takes part at most.

    Args:
        sampling: How clients are drawn; None for all in every round.
        clients: How many there are, if that is known.
        rounds: How many rounds there are.
    """
    if sampling is None or sampling.share == 1:
        return rounds
    if clients is None:
        raise FedloomError("how often a client is drawn at most depends on how many there are: give --clients.")
    return most_turns(rounds, clients, Draws(rate=sampling.share))
