"""Run a method for a check: the rounds of a normal run, with access to the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedloom.config.resolve import resolve
from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.task import Task
from fedloom.engines.inline import Inline
from fedloom.rounds.composition import Composition
from fedloom.rounds.loop import play_prelude, play_round
from fedloom.rounds.run_state import RunState, initial_state
from fedloom.runs.prepare import prepare
from fedloom.training.local_trainer import LocalTrainer
from fedloom.training.threads import single_thread


@dataclass(frozen=True)
class MethodRun:
    """A composition, its state after some rounds, and the records of these rounds."""

    run: Composition
    state: RunState
    records: list[dict[str, Any]]

    @property
    def row(self) -> Tensor:
        """The shared model."""
        return self.state.server["row"]

    def prediction_rows(self, stages: Sequence[PredictionStage] = ()) -> Tensor:
        """The row that each client predicts with, after the run's stages and the additional ``stages``."""
        return self._rows(self._all_clients(), [*self.run.stages, *stages])

    def accuracy(self, with_stages: bool) -> float:
        """The clients' mean score on their own test parts, with or without the run's stages."""
        cohort = self._all_clients()
        rows = self._rows(cohort, self.run.stages if with_stages else ())
        return float(cohort.evaluate(rows).mean_score.nanmean())

    def _all_clients(self) -> Cohort:
        run, state = self.run, self.state
        ids = list(range(run.task.federation.clients))
        trainer = LocalTrainer(run.task, run.execution.name)
        cohort = Cohort(ids, trainer, run.setting, state.round, state.client_states.read(ids))
        run.algorithm.prepare_cohort(cohort)
        return cohort

    def _rows(self, cohort: Cohort, stages: Sequence[PredictionStage]) -> Tensor:
        message = self.run.algorithm.broadcast(self.state.server, cohort.ids)
        rows = cohort.spread(self.run.algorithm.weights_for(message, cohort))
        for stage in stages:
            rows = stage.weights(rows, message, cohort)
        return rows

    def continue_for(self, rounds: int) -> MethodRun:
        """Run some more rounds."""
        return _play_rounds(self.run, self.state, rounds, self.records)


def run_method(
    task: Task, method: Algorithm, play: int, local: Mapping[str, Any], *, rounds: int | None = None, **settings: Any
) -> MethodRun:
    """Run ``play`` of a run's ``rounds`` rounds (by default all); ``settings`` are keys of the run's config."""
    values = {"rounds": rounds or max(play, 1), "local": dict(local), "eval_every": 0, **settings}
    run = prepare(task, method, resolve(values, "the check", task=task)).composition
    state = initial_state(run)
    with single_thread():
        play_prelude(run, Inline(run.runtime()), state)
    return _play_rounds(run, state, play, [])


def _play_rounds(run: Composition, state: RunState, rounds: int, before: list[dict[str, Any]]) -> MethodRun:
    with single_thread():
        engine = Inline(run.runtime())
        records = [play_round(run, engine, state) for _ in range(rounds)]
    return MethodRun(run, state, [*before, *records])
