"""What is audited: every mechanism, through the code of real runs, with what was found to break a guarantee around it.

A case plays one neighbour many times and returns the attacker's scores. The attacker knows everything that a run makes
public: the models of all rounds, and the records; where records say who was drawn, it uses that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from fedloom.audits.canary import CLIP, SIZE, Presence, along_canary, canary_task
from fedloom.audits.lower_bound import Scores
from fedloom.config.resolve import resolve
from fedloom.core.algorithm import Algorithm, State
from fedloom.core.facts import Fact
from fedloom.core.message import Replies
from fedloom.core.privacy import Privacy
from fedloom.core.task import Task
from fedloom.engines.inline import Inline
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedseq.fedseq import FedSeq
from fedloom.rounds.composition import Composition
from fedloom.rounds.loop import play_round
from fedloom.rounds.run_state import RunState, initial_state
from fedloom.runs.prepare import prepare
from fedloom.training.threads import single_thread

DELTA = 0.01
"""Large, so that a few thousand trials can show a violation: what is counted wrongly is so at any delta."""
WORK = {"lr": 1.0, "batch_size": 0}


class AuditCase(Protocol):
    """A mechanism that is played."""

    @property
    def name(self) -> str:
        """What is played, in words."""

    @property
    def neighbour(self) -> Presence:
        """What the canary is in the other of two neighbours."""

    def play(self, presence: Presence, trials: int) -> tuple[Scores, float]:
        """The attacker's scores, and the epsilon that the runs state.

        Args:
            presence: What the canary is.
            trials: How often it is played.
        """


@dataclass(frozen=True)
class MeanCase:
    """Runs with a private mean, whose models the attacker sees after every round.

    Args:
        name: What is played, in words.
        settings: The settings of the run but for the noise.
        neighbour: What the canary is in the other of two neighbours.
        noise: The noise multiplier.
        clients: How many clients there are.
        rounds: How many rounds.
        bystanders: How many clients have a tiny change of their own, and as many a huge one, for a screen to compare.
        crashes: How often every round is played once more after its record was written, as after a crash.
    """

    name: str
    settings: Mapping[str, Any]
    neighbour: Presence = "zero"
    method: Algorithm = field(default_factory=FedAvg)
    noise: float = 1.0
    clients: int = 40
    rounds: int = 3
    bystanders: int = 0
    crashes: int = 0

    def play(self, presence: Presence, trials: int) -> tuple[Scores, float]:
        """Play whole runs, one after the other."""
        run, engine = self._composition(presence)
        scores, stated, seeded = np.zeros(trials), 0.0, self.settings.get("aggregation", {}).get("seeded", False)
        with single_thread():
            for trial in range(trials):
                if seeded:  # such noise protects from those who do not know the seed: every trial has its own
                    run = replace(run, setting=replace(run.setting, seed=2 * trial + (presence == "in")))
                scores[trial], stated = self._play(run, engine)
        return scores, stated

    def _composition(self, presence: Presence) -> tuple[Composition, Inline]:
        task = canary_task(self.clients, 1, presence)
        x, few = task.federation.columns["x"], self.bystanders
        x[1 : 1 + few, 0], x[1 + few : 1 + 2 * few, 0] = 1e-6, SIZE
        aggregation = {"name": "privatemean", "noise": self.noise, "clip": CLIP, "delta": DELTA}
        values = {
            "rounds": self.rounds,
            "local": WORK,
            "weight_by": "uniform",
            "eval_every": 0,
            "aggregation": {**aggregation, **self.settings.get("aggregation", {})},
            **{key: value for key, value in self.settings.items() if key != "aggregation"},
        }
        run = prepare(task, self.method, resolve(values)).composition
        return run, Inline(run.runtime())

    def _play(self, run: Composition, engine: Inline) -> tuple[float, float]:
        """The score of one run, and the epsilon that its last record states."""
        state, score, record = initial_state(run), 0.0, dict[str, Any]()
        for _ in range(self.rounds):
            for _ in range(self.crashes):
                lost = state.copy()
                record = play_round(run, engine, lost)
                score += self._likelihood(run, state, lost, record)
                state.count_plays()  # as a resumed run does for a record that no checkpoint vouches for
            before = state.copy()
            record = play_round(run, engine, state)
            score += self._likelihood(run, before, state, record)
        return score, float(record["metrics"]["privacy/epsilon"])

    def _likelihood(self, run: Composition, before: RunState, after: RunState, record: Mapping[str, Any]) -> float:
        """How much likelier what a round released is with the canary than with its neighbour, as a logarithm."""
        privacy = cast(Privacy, run.privacy)  # every run with a private mean has one
        seen = float(along_canary(after.server["row"] - before.server["row"])) * privacy.expected
        rate, drawn = privacy.rate, record["selected"]
        if drawn:  # the record says who was drawn
            rate = float(0 in drawn)
        other = 0.0 if self.neighbour == "zero" else -1.0
        return _mixture(seen, rate, 1.0, self.noise) - _mixture(seen, rate, other, self.noise)


def _mixture(seen: float, rate: float, shift: float, noise: float) -> float:
    """The logarithm of the density of noise that is shifted with some probability, against noise alone."""
    shifted = (2 * seen * shift - shift**2) / (2 * noise**2)
    return float(np.logaddexp(np.log1p(-rate) if rate < 1 else -np.inf, np.log(rate) + shifted if rate else -np.inf))


@dataclass(frozen=True)
class Overheard(FedAvg):
    """FedAvg of which somebody overhears every single reply, as a server does.

    Args:
        heard: What was heard, a row per client; it grows with the rounds.
    """

    grants: ClassVar[tuple[Fact, ...]] = (Fact.ONLY_MEANS, Fact.ONLY_TRAINING)

    heard: list[Tensor] = field(default_factory=list, compare=False, repr=False)

    def aggregate(self, server: State, replies: Replies) -> State:
        """Hear, and leave the model as it is: every round is then the same mechanism."""
        self.heard.append(replies.tensors["row"] - server["row"])
        return server


@dataclass(frozen=True)
class RepliesCase:
    """Runs in which every client has a canary, and its replies are one trial.

    Args:
        name: What is played, in words.
        epsilon: The name of what its records state.
        neighbour: What the canary is in the other of two neighbours.
        samples: How many samples each client has.
        rounds: How many rounds.
        method: The method; it hears replies.
    """

    name: str
    settings: Mapping[str, Any]
    epsilon: str
    neighbour: Presence
    samples: int = 1
    rounds: int = 2
    method: type[Overheard] = Overheard

    def play(self, presence: Presence, trials: int) -> tuple[Scores, float]:
        """Play one run with as many clients as there are trials."""
        task, heard = canary_task(trials, trials, presence, self.samples), list[Tensor]()
        with single_thread():
            record = _play_rounds(task, self.method(heard), {"rounds": self.rounds, **self.settings})
        return np.asarray(sum(map(along_canary, heard))), float(record["metrics"][self.epsilon])


@dataclass(frozen=True)
class SumCase:
    """Runs in which noise is in shares under a secure sum: the server sees the noisy sum of three clients.

    Args:
        name: What is played, in words.
        settings: The settings of the step.
        neighbour: What the canary is in the other of two neighbours.
    """

    name: str
    settings: Mapping[str, Any]
    neighbour: Presence = "opposite"

    def play(self, presence: Presence, trials: int) -> tuple[Scores, float]:
        """Play rounds of one run, each of which is the same mechanism: one round is one trial."""
        task, heard = canary_task(3, 1, presence), list[Tensor]()
        channel = [{"name": "privatesum", "clip": CLIP, "delta": DELTA, **self.settings}]
        run = prepare(task, Overheard(heard), resolve(_quiet({"rounds": 1, "channel": channel}))).composition
        engine, record = Inline(run.runtime()), dict[str, Any]()
        with single_thread():
            for _ in range(trials):
                record = play_round(run, engine, initial_state(run))
        scores = torch.cat([along_canary(rows) for rows in heard])
        return scores.numpy(), float(record["metrics"]["privacy/sum_epsilon"])


def _play_rounds(task: Task, method: Algorithm, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Play all rounds of a run, and return the last record."""
    prepared = prepare(task, method, resolve(_quiet(settings)))
    run, record = prepared.composition, dict[str, Any]()
    engine, state = Inline(run.runtime()), initial_state(run)
    for _ in range(prepared.config.rounds):
        record = play_round(run, engine, state)
    return record


def _quiet(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"local": WORK, "weight_by": "uniform", "eval_every": 0, **settings}


def privacy_cases() -> tuple[AuditCase, ...]:
    """Every mechanism, alone and with what may weaken it."""
    poisson = {"selection": {"name": "poisson", "rate": 0.4}}
    every = MeanCase("privatemean, every client", {"selection": "random"}, noise=2.0, clients=3, rounds=1)
    chains = FedSeq(chains=[[2 * pair, 2 * pair + 1] for pair in range(20)], reshuffle=False)
    dpsgd = {"sample_privacy": {"noise": 1.0, "clip": CLIP, "delta": DELTA}, "local": {"lr": 1e-3, "batch_size": 2}}
    local = {"channel": [{"name": "localnoise", "noise": 2.0, "clip": CLIP, "delta": DELTA}]}
    return (
        every,
        MeanCase("privatemean, poisson", poisson),
        MeanCase("privatemean, a fixed number", {"selection": {"name": "random", "number": 10}}, "opposite", noise=2.0),
        MeanCase("privatemean, chains of fedseq", {"selection": {"name": "poisson", "rate": 0.6}}, "opposite", chains),
        MeanCase("privatemean, seeded draws that records tell", {**poisson, "aggregation": {"seeded": True}}, rounds=3),
        replace(every, name="privatemean, others that a screen would compare", bystanders=4, clients=9),
        replace(every, name="privatemean, rounds played again", crashes=4),
        RepliesCase("sample_privacy (DP-SGD)", dpsgd, "privacy/sample_epsilon", "zero", samples=8),
        RepliesCase("localnoise", local, "privacy/local_epsilon", "opposite"),
        SumCase("privatesum", {"noise": 1.0}),
    )
