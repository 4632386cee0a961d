"""Runs in which some clients do not answer, as it happens on real machines: without any machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedloom.config.resolve import resolve
from fedloom.core.algorithm import Algorithm
from fedloom.core.kept_rows import KeptRows
from fedloom.core.message import Message
from fedloom.core.task import Task
from fedloom.engines.inline import Inline
from fedloom.rounds.client_runtime import ClientRuntime
from fedloom.rounds.jobs import Job, Tensors
from fedloom.runs.prepare import Prepared, prepare
from fedloom.runs.results.history import History
from fedloom.runs.runner import execute, resume

IsSilent = Callable[[Job], bool]
"""Whether a job of one client stays undone."""


class SilentEngine(Inline):
    """An engine on which some jobs stay undone.

    ``started_rounds`` are the rounds it began; ``reasons`` is what it says of
    who was left out, by kind of job and round.
    """

    def __init__(self, runtime: ClientRuntime, is_silent: IsSilent) -> None:
        super().__init__(runtime)
        self.is_silent = is_silent
        self.started_rounds: list[int] = []
        self.reasons: dict[tuple[str, int], dict[str, Any]] = {}
        self.exclusions: list[dict[str, Any]] = []

    def begin(self, round_number: int) -> None:
        self.started_rounds.append(round_number)

    def run(  # type: ignore[override]
        self, jobs: list[Job], message: Message, kept: Mapping[str, KeptRows]
    ) -> list[Tensors | None]:
        reason = self.reasons.get((jobs[0].kind, jobs[0].round))
        self.exclusions += [] if reason is None else [reason]
        return [
            None if job.kind != "global" and self.is_silent(job) else self.runtime.do(job, message, kept)
            for job in jobs
        ]

    def take_exclusions(self) -> list[dict[str, Any]]:
        taken, self.exclusions = self.exclusions, []
        return taken

    @staticmethod
    def of(run: Prepared, is_silent: IsSilent) -> SilentEngine:
        return SilentEngine(run.composition.runtime(), is_silent)


def prepare_run(task: Task, method: Algorithm, quorum: int = 1, retries: int = 0, **settings: Any) -> Prepared:
    """A run whose jobs are of one client each."""
    values = {"rounds": 3, "seed": 3, "task": {"name": task.name, "clients": task.federation.clients}, **settings}
    run = prepare(task, method, resolve({"method": {"name": "fedavg"}, **values}, task=task))
    composition = replace(
        run.composition,
        execution=replace(run.composition.execution, cohort=1),
        scored_together=1,
        quorum=quorum,
        retries=retries,
    )
    return replace(run, composition=composition)


def play_run(
    run: Prepared, is_silent: IsSilent = lambda _: False, folder: Path | None = None, observers: Any = ()
) -> History:
    """Play a run in which some do not answer, or go on with its folder."""
    has_started = folder is not None and (folder / "config.toml").exists()
    if has_started:
        assert folder is not None
        return resume(run, folder, observers, SilentEngine.of(run, is_silent))
    return execute(run, folder, observers, SilentEngine.of(run, is_silent))


def missing(**rounds: Any) -> IsSilent:
    """Clients that do not answer in some rounds: ``missing(r2=[1, 3])``; only updates are concerned."""
    return lambda job: job.kind == "update" and job.ids[0] in rounds.get(f"r{job.round}", ())
