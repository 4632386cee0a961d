"""The empirical epsilon of one whole run: DP-SGD at clients, its channel and its rounds, with canaries in its own data.

``audit_of_run`` plays thousands of trials of the noise alone. Here the run itself is played, once, with canaries in the
place of some samples (``planted_canaries.py``), and a server that looks guesses which of them were there: the model
moves, canaries lie between real samples, and whatever the code around the noise gives away counts too. It knows all
samples and canaries but the coins. Its score of a canary is how far updates point where the canary's clipped gradient
does, once what all of the client's samples do and the noise are divided out (``Whitening``). What the guesses show is
in ``one_run_bound.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fedloom.attacks.measures.interval import Rates
from fedloom.attacks.measures.trade_off import Curve, TradeOff, curve_of_profile, trade_off
from fedloom.attacks.membership.update_alignment import Whitening
from fedloom.attacks.reconstruction.gradients import sample_gradients
from fedloom.attacks.seen_updates import Seen, seen_updates
from fedloom.audits.lower_bound import CONFIDENCE
from fedloom.audits.one_run_bound import CoinGuesses, guess_coins, last_where, least_epsilon, rules_out
from fedloom.audits.planted_canaries import PlantedCanaries, plant_canaries
from fedloom.audits.updates_of_run import LookingServer
from fedloom.config.method_spec import Method, method_from
from fedloom.config.resolve import resolve
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.message import Replies, Wave
from fedloom.core.task import Task
from fedloom.engines.inline import Inline
from fedloom.privacy.client_ledger import SampleLedger
from fedloom.privacy.sampling import sampling_rate
from fedloom.rounds.loop import is_over, play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.runs.prepare import prepare
from fedloom.runs.run import method_section
from fedloom.training.threads import single_thread

DELTAS = tuple(float(delta) for delta in np.geomspace(1e-5, 0.8, 12))
"""At which deltas the epsilon of a run is asked, for its trade-off curve."""
POWERS = (-4.0, 4.0)
"""Between which powers of 2, times the noise that is stated, noise is tried."""
RIDGE = 0.01
"""The share of the noise's variance that scores are made for. On digits they tell as much of noise that is as strong as
stated as with all of it (0.68 deviations and 0.65), and far more of a tenth of it (2.4 and 0.7)."""
NUMBERS = 20_000_000
"""How many numbers gradients of a client's samples may be together: of large models fewer of its samples are used."""


@dataclass(frozen=True)
class SpentPrivacy:
    """What a run with ``sample_privacy`` has spent.

    Args:
        ledger: Knows the noise.
        sizes: How many samples each client has.
        uses: How many noisy steps it made.
    """

    ledger: SampleLedger
    sizes: Sequence[int]
    uses: Sequence[int]

    @property
    def epsilon(self) -> float:
        """The epsilon that the run states: the largest of any client."""
        return self.ledger.spent(self.sizes, self.uses)

    @cached_property
    def curve(self) -> Curve:
        """The trade-off curve that holds for the samples of every client."""
        return curve_of_profile(
            [(replace(self.ledger, delta=delta).spent(self.sizes, self.uses), delta) for delta in DELTAS]
        )

    def with_noise(self, times: float) -> SpentPrivacy:
        """The same run with another noise.

        Args:
            times: How many times as large it is.
        """
        return replace(self, ledger=replace(self.ledger, noise=times * self.ledger.noise))


@dataclass(frozen=True)
class OneRunAudit:
    """What was found of one run. What ``holds`` judges is true together with ``confidence``.

    Args:
        stated: The epsilon that the run states.
        lower_bound: The largest epsilon that the guesses rule out, whatever the mechanism is; 0 if they rule out none.
        beats_curve: Whether so many right guesses are ruled out by the trade-off curve of the run's noise, which says
            more than one epsilon.
        guesses: What was guessed, for each number of guesses.
        trade_off: The curve of the attacker's scores. Its band takes each canary for a trial of its own, which is not
            proven, since canaries are in one run: ``holds`` does not use it.
        spent: The privacy that the run has spent; ``spent.curve`` is to be held beside ``trade_off``.
        scores: The attacker's score of each canary.
        coins: 1 for each canary that was in the run, 0 for the others.
    """

    stated: float
    lower_bound: float
    beats_curve: bool
    guesses: tuple[CoinGuesses, ...]
    trade_off: TradeOff
    spent: SpentPrivacy = field(repr=False)
    scores: Rates = field(repr=False)
    coins: Rates = field(repr=False)
    confidence: float = CONFIDENCE

    @property
    def holds(self) -> bool:
        """Whether the guesses leave what is stated possible: the epsilon, and the curve of the noise."""
        return self.lower_bound <= self.stated and not self.beats_curve

    def most_noise(self) -> float | None:
        """The largest noise that the guesses leave possible, as a multiple of the noise that is stated.

        It is a bound if the run adds Gaussian noise in as many steps and draws samples at the same rates, whatever its
        deviation is. It asks for the privacy of the run with several noises, which takes some seconds.

        Returns:
            The multiple; None if the guesses leave the largest possible that is tried.
        """

        def is_possible(power: float) -> bool:
            curve = self.spent.with_noise(2.0**power).curve
            return not _beats(self.guesses, curve, self.confidence)

        power = last_where(is_possible, *POWERS, steps=8)
        return 2.0**power if power < POWERS[1] - 0.1 else None


@dataclass(frozen=True)
class CanaryServer(LookingServer):
    """A server that scores canaries as updates come.

    Args:
        ridge: Of each client, what is added to the sum of its gradients' squares.
        clip: The clip norm.
        scores: The score of each canary; updates add to it.
    """

    grants: ClassVar[Collection[Fact]] = (Fact.SAME_START, Fact.ONLY_SUMS)

    planted: PlantedCanaries | None = field(default=None, compare=False, repr=False)
    ridge: Tensor = field(default_factory=lambda: torch.zeros(0), compare=False, repr=False)
    clip: float = 1.0
    scores: Tensor = field(default_factory=lambda: torch.zeros(0), compare=False, repr=False)

    def look_at_replies(self, wave: Wave, replies: Replies) -> Mapping[str, float]:
        """Add what an exchange says of canaries, and record nothing."""
        for update in seen_updates(wave, replies):
            self._score(update)
        return {}

    def _score(self, update: Seen) -> None:
        planted = self.planted
        assert planted is not None  # noqa: S101
        canaries, train = planted.positions, planted.visible.federation.train
        mine = torch.cat([torch.arange(*canaries.starts[client : client + 2].tolist()) for client in update.clients])
        if not len(mine):
            return
        everything = torch.cat([train[client] for client in update.clients])
        others = everything[~torch.isin(everything, canaries.order)]
        room = max(0, NUMBERS // planted.visible.layout.width - len(mine))
        asked = torch.cat([canaries.order[mine], others[:room]])
        steps = -sample_gradients(planted.visible, update.row, asked).double()
        steps = steps / torch.linalg.vector_norm(steps, dim=1, keepdim=True).clamp(min=self.clip)
        steps = update.take_sent(steps)
        metric = Whitening.of_gradients(steps, self.ridge[list(update.clients)].sum())
        self.scores[mine] += metric.cosines(steps[: len(mine)], update.take_sent(update.trained))


def audit_in_one_run(
    task: Task,
    method: Method = "fedavg",
    canaries: int = 500,
    confidence: float = CONFIDENCE,
    **settings: Any,
) -> OneRunAudit:
    """Play a run once, with canaries in the place of some training samples, and bound its epsilon by guesses of them.

    Args:
        task: The task of the run, with inputs that are numbers and targets that are classes.
        canaries: How many canaries there are, shared evenly by the clients: more of them can show more, and leave
            less of the run's own data.
        confidence: The probability with which the bounds hold.
        **settings: Settings of ``fl.run`` other than ``adversary``, with ``sample_privacy``.
    """
    if "adversary" in settings:
        raise FedloomError("audit_in_one_run has a server that looks: leave out adversary.")
    algorithm = method_from(method)
    values = {**settings, "method": method_section(algorithm), "eval_every": 0}
    planned = prepare(task, algorithm, resolve(values)).config
    privacy = planned.sample_privacy
    if privacy is None:
        raise FedloomError(
            "canaries are guessed against noise on single samples, and this run has none: give sample_privacy."
        )
    planted = plant_canaries(task, canaries, planned.seed)
    sizes: list[int] = task.federation.train.sizes.tolist()
    rates = torch.tensor([sampling_rate(size, planned.local.batch_size) for size in sizes], dtype=torch.float64)
    scores = torch.zeros(canaries, dtype=torch.float64)
    server = CanaryServer(
        planted=planted, ridge=RIDGE * privacy.multiplier**2 / rates, clip=privacy.clip, scores=scores
    )
    uses = _play(planted, algorithm, {**values, "adversary": server})
    if not scores.any():
        raise FedloomError("the server of this run saw no model of a client come back: choose fedavg or fedprox.")
    ledger = SampleLedger(privacy.multiplier, privacy.delta, planned.local.batch_size)
    coins = planted.coins.double().numpy()
    return judge_scores(SpentPrivacy(ledger, sizes, uses), scores.numpy(), coins, confidence)


def _play(planted: PlantedCanaries, algorithm: Algorithm, values: Mapping[str, Any]) -> list[int]:
    """Play a run to its end, and return how often each client used its noise."""
    run = prepare(planted.visible, algorithm, resolve(values)).composition
    run = replace(run, task=planted.task)  # only now: a run is not prepared with samples that are not numbers
    state, engine = initial_state(run), Inline(run.runtime())
    with single_thread():
        play_prelude(run, engine, state)
        while not is_over(run, state):
            play_round(run, engine, state)
    return state.uses["sample"].tolist()


def judge_scores(spent: SpentPrivacy, scores: Rates, coins: Rates, confidence: float = CONFIDENCE) -> OneRunAudit:
    """What an attacker's scores show of a run.

    Args:
        spent: What the run has spent.
        scores: The attacker's score of each canary.
        coins: 1 for each canary that was in the run, 0 for the others.
        confidence: The probability with which the bounds hold.
    """
    guesses = tuple(guess_coins(scores, coins))
    return OneRunAudit(
        spent.epsilon,
        least_epsilon(guesses, spent.ledger.delta, _single(confidence)),
        _beats(guesses, spent.curve, confidence),
        guesses,
        trade_off(scores[coins == 1], scores[coins == 0], confidence),
        spent,
        scores,
        coins,
        confidence,
    )


def _single(confidence: float) -> float:
    """The confidence of each of two bounds that hold together."""
    return (1 + confidence) / 2


def _beats(guesses: Sequence[CoinGuesses], curve: Curve, confidence: float) -> bool:
    """Whether any number of guesses has more right ones than a curve leaves possible."""
    chance = (1 - _single(confidence)) / len(guesses)
    return any(rules_out(some, curve, chance) for some in guesses)
