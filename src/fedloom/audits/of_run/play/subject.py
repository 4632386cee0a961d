"""The run that is audited: its values, and how its beginning is played with other settings.

Rounds are not made fewer, they are cut off: the run is prepared as it is configured (its noise, its schedule), and not
played to its end. So what is attacked is the beginning of the run, and not another one.

Noise that comes from the operating system is drawn from the seed here, as strong as before: an audit has to give the
same numbers when it is repeated. Early stopping and an attack of the run's own are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from fedloom.config.schema import RunConfig
from fedloom.config.settings import DEFAULT_ROUNDS
from fedloom.core.algorithm import Algorithm
from fedloom.core.attack import Attack
from fedloom.core.errors import FedloomError, Stopped
from fedloom.core.task import Task
from fedloom.engines.inline import Inline
from fedloom.rounds.baseline_scores import score_pooled_and_own
from fedloom.rounds.evaluation import score_models
from fedloom.rounds.loop import is_over, play_prelude, play_round
from fedloom.rounds.run_state import initial_state
from fedloom.rounds.score import Score, score_of
from fedloom.runs.plans.members import Member, RunFactory, TaskOf
from fedloom.runs.prepare import Prepared
from fedloom.training.threads import single_thread

LEFT_OUT = ("adversary", "early_stopping", "eval_every", "checkpoint_every")
SEEDS = 3
"""With so many seeds a probe is played if there is time."""


class OutOfTime(Exception):  # noqa: N818  nothing went wrong
    """A trial that would go on after the end of the budget."""


@dataclass(frozen=True)
class RunSize:
    """What the length of a probe depends on.

    Args:
        rounds: How many rounds of the run are played.
        clients: How many clients it has.
        samples: How many training samples they have together.
    """

    rounds: int
    clients: int
    samples: int


@dataclass(frozen=True)
class Played:
    """The beginning of a run that was played.

    Args:
        records: What was recorded of each round.
        metrics: What the models scored at the end.
        row: The shared model at the end; None where there is none.
        diverged: Why the run could not go on; empty if it could.
    """

    prepared: Prepared
    records: list[dict[str, Any]]
    metrics: dict[str, float]
    row: Tensor | None
    diverged: str = ""

    @property
    def task(self) -> Task:
        """The task as it was trained."""
        return self.prepared.composition.task

    @property
    def config(self) -> RunConfig:
        """The complete configuration."""
        return self.prepared.config

    @property
    def score_kind(self) -> Score:
        """What models are scored by."""
        return score_of(self.prepared.plain)

    @property
    def score(self) -> float | None:
        """The score of the shared model, or of clients' models where none is shared."""
        return self.metrics.get(self.score_name)

    @property
    def score_name(self) -> str:
        """The full name of that score."""
        kind = self.score_kind
        return kind.shared if kind.shared in self.metrics else kind.clients

    @property
    def rounds(self) -> int:
        """How many rounds were played."""
        return int(self.records[-1]["round"]) if self.records else 0

    def total(self, what: str) -> float:
        """The sum of a cost over the rounds.

        Args:
            what: A key of records, such as ``bytes_up``.
        """
        return float(sum(record.get(what, 0) for record in self.records))


@dataclass
class Subject:
    """The audited run.

    Args:
        values: The values of its config.
        task_of: A function from a seed to the task, if the values do not name it.
        method: The method, if it is a Python object.
    """

    values: Mapping[str, Any]
    task_of: TaskOf | None = None
    method: Algorithm | None = None
    runs: RunFactory = field(init=False)
    _guesses: dict[int, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = RunFactory(self.task_of, kept_tasks=SEEDS)

    @property
    def rounds(self) -> int:
        """How many rounds the run has."""
        return int(self.values.get("rounds", DEFAULT_ROUNDS))

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.values.get("seed", RunConfig().seed))

    def size(self, rounds: int) -> RunSize:
        """How large the run is, once it was prepared.

        Args:
            rounds: How many rounds of it are played.
        """
        _, task = self.runs.tasks[0]
        return RunSize(rounds, task.federation.clients, int(task.federation.train.sizes.sum()))

    def guess(self, played: Played, seed: int) -> float | None:
        """What the best answer scores that learns nothing; None where the task knows none.

        Args:
            played: The run without an attack, with any defence.
        """
        if seed not in self._guesses:
            found = score_pooled_and_own(played.prepared.composition, played.rounds)
            scores = [one["metrics"][played.score_name] for one in found if played.score_name in one["metrics"]]
            self._guesses[seed] = max(scores, key=played.score_kind.rank) if scores else None
        return self._guesses[seed]

    def prepare(self, values: Mapping[str, Any], seed: int) -> Prepared:
        """The run, ready to start; a combination that cannot run is refused."""
        with quiet():
            return self.runs.prepare(Member("audit", "audit", values, self.method), seed)

    def settings(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], Prepared]:
        """Values of the run, or of the run with a defence, as trials use them: noise planned, and from the seed.

        Args:

        Returns:
            These values, and the run as it was meant, ready to start.
        """
        kept = {key: value for key, value in values.items() if key not in LEFT_OUT}
        prepared = self.prepare(kept, self.seed)
        config = prepared.config
        found = dict(kept)
        if _is_noise(config.aggregation):
            # Its accounting depends on who knows the draws, and so would the noise that an epsilon takes.
            found["aggregation"] = replace(config.aggregation, seeded=True, epsilon=None)
        if any(map(_is_noise, config.channel)):
            found["channel"] = [replace(step, seeded=True) if _is_noise(step) else step for step in config.channel]
        if config.sample_privacy is not None:
            found["sample_privacy"] = replace(config.sample_privacy, seeded=True)
        return found, prepared

    def play(
        self,
        settings: Mapping[str, Any],
        seed: int,
        rounds: int,
        adversary: Attack | Mapping[str, Any] | None = None,
        over: Callable[[], bool] = lambda: False,
    ) -> Played:
        """Play the first rounds of the run, and score what came out.

        Args:
            settings: Its values, of ``settings``.
            rounds: The last round that is played.
            adversary: The part, or its name and settings.
            over: Whether there is no time left; asked before every round.
        """
        values = dict(settings) if adversary is None else {**settings, "adversary": adversary}
        prepared = self.prepare({**values, "eval_every": 1}, seed)
        run = replace(prepared.composition, eval_every=rounds)
        if adversary is not None and run.hostile is None:
            raise FedloomError("nothing is sent in this run that the attack acts on, or nobody of it is hostile.")
        records, state, metrics, diverged = list[dict[str, Any]](), initial_state(run), dict[str, float](), ""
        with quiet(), single_thread():
            engine = Inline(run.runtime())
            try:
                records.append(play_prelude(run, engine, state))
                while state.round < rounds and not is_over(run, state):
                    if over():
                        raise OutOfTime
                    records.append(play_round(run, engine, state))
                metrics = score_models(run, engine, state)[0]
            except Stopped as end:
                diverged = str(end)
        found = {**(records[-1]["metrics"] if records else {}), **metrics}
        return Played(prepared, records, found, state.server.get("row"), diverged)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings of runs from the terminal: an audit plays the same run many times, and says itself what it does."""
    log = logging.getLogger("fedloom")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _is_noise(part: object) -> bool:
    """Whether a part draws noise that can be taken from the seed."""
    return is_dataclass(part) and any(one.name == "seeded" for one in fields(part))
