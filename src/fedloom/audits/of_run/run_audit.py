"""The audit of a run: attack it with everything that applies, with and without defences, within a budget of minutes.

``audit.toml`` in the folder holds the plan, and every cell that is done is a file; so the same call continues a stopped
audit, and a call with more minutes continues a finished one.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedloom.audits.of_run.conclude import find_all, protections
from fedloom.audits.of_run.page.assessment import paragraphs
from fedloom.audits.of_run.page.audit_page import write_audit_page
from fedloom.audits.of_run.play.cells import Cell, CellResult
from fedloom.audits.of_run.play.defences import RunVariant, make_settings
from fedloom.audits.of_run.play.pace import Pace, measure_pace, read_pace, write_pace
from fedloom.audits.of_run.play.schedule import NextCell, Schedule
from fedloom.audits.of_run.play.subject import OutOfTime, Subject, quiet
from fedloom.audits.of_run.play.trial import Trial
from fedloom.audits.of_run.probes.all_probes import PLAIN, all_probes
from fedloom.audits.of_run.result import Audit
from fedloom.config.method_spec import Method, method_from
from fedloom.config.schema import RunConfig
from fedloom.config.settings import DEFAULT_ROUNDS
from fedloom.config.task_title import task_title
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import path_from, real_number
from fedloom.core.errors import FedloomError, unwritable
from fedloom.core.task import Task
from fedloom.files.atomic_write import write_private
from fedloom.registry.setting_arguments import documents_settings
from fedloom.rounds.score import score_of
from fedloom.runs.folder.folder_lock import lock_folder
from fedloom.runs.plans.advise.halving import Budget
from fedloom.runs.plans.members import TaskOf
from fedloom.runs.plans.plan import TaskSource, write_plan
from fedloom.runs.prepare import Prepared
from fedloom.runs.results.history import History
from fedloom.runs.run import method_section

PLAN, PAGE, DATA = "audit.toml", "audit.html", "audit.json"
RESERVE = 0.03
"""The share of the budget that is kept for the page."""
Watch = Callable[[NextCell], None]


@documents_settings(RunConfig, without=("task", "method", "adversary", "early_stopping"))
def audit(
    task: Task | str,
    method: Method = "fedavg",
    *,
    minutes: float = 2.0,
    defences: Sequence[str] | None = None,
    out: str | Path | None = None,
    watch: Watch = lambda _: None,
    **settings: Any,
) -> Audit:
    """Attack a run with everything that applies, with and without defences, and say what leaked and what broke.

    Args:
        task: A task, or the name of one with its usual settings.
        method: A method's spec, or a method.
        minutes: How long it may take.
        defences: What the run is protected with, one after the other, as ``--set`` takes it:
            ``["aggregation=median", "channel=securesum"]``. By default a robust rule, a secure sum, and noise.
        out: A folder, which gets ``audit.html`` and ``audit.json``. The same call continues a stopped audit.
        watch: A function that is called before each attack.
        **settings: Any other key of a run's config, as for ``fl.run``.
    """
    source = TaskSource.of(task)
    name = method if isinstance(method, str) else method_section(method_from(method))
    values = {**settings, "task": source.section, "method": name, "rounds": settings.get("rounds", DEFAULT_ROUNDS)}
    made = None if isinstance(method, str) else method_from(method)
    folder = None if out is None else path_from("out", out)
    return run_audit(values, minutes, defences, folder, None if source.is_named else source.of_seed, made, watch)


def run_audit(
    values: Mapping[str, Any],
    minutes: float,
    defences: Sequence[str] | None,
    out: Path | None,
    task_of: TaskOf | None = None,
    method: Algorithm | None = None,
    watch: Watch = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    began: float | None = None,
) -> Audit:
    """Audit the run of a config's values; see ``audit``.

    Args:
        values: The values of a config.
        task_of: A function from a seed to the task, if the values do not name it.
        method: The method, if it is a Python object.
        clock: Tells the time.
        began: When the minutes began, by the clock; now by default.
    """
    if not real_number("minutes", minutes) > 0 or not math.isfinite(minutes):
        raise FedloomError(f"minutes={minutes:g}: it must be a number above 0, for instance 2.")
    if values.get("adversary") is not None:
        raise FedloomError("the run has an adversary of its own, and an audit brings its attacks: leave it out.")
    budget, subject = Budget(60 * minutes, clock), Subject(values, task_of, method)
    budget.began = budget.began if began is None else began
    settings = make_settings(subject, defences)
    prepared = subject.settings(values)[1]
    with tempfile.TemporaryDirectory() if out is None else nullcontext(str(out)) as name:
        folder = Path(name)
        plan = {"minutes": minutes, "config": values, "made_by": {"task": prepared.plain["made_by"]["task"]}}
        plan |= {} if defences is None else {"defences": list(defences)}
        _refuse_foreign(folder, out)
        write_plan(folder, PLAN, plan, task_of is None, may_change=("minutes", "defences"))
        with lock_folder(folder):
            schedule = _schedule(subject, settings, budget, folder, watch)
            results = schedule.run()
            if not any(one.status == "measured" for one in results.values()):
                raise FedloomError(
                    f"not one attack fits into {minutes:g} minutes, and a round takes about "
                    f"{schedule.pace.per_round:,.1f} seconds: give more minutes."
                )
            found = _conclude(schedule, results, prepared, minutes, out)
            if out is not None:
                write_private(out / DATA, json.dumps(found.as_dict(), allow_nan=False, indent=1).encode())
                write_audit_page(found, out / PAGE)
    return found


def _refuse_foreign(folder: Path, out: Path | None) -> None:
    """Refuse a folder that holds something else; a new one is its owner's alone, since it will hold samples."""
    if out is None:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        foreign = not (folder / PLAN).exists() and any(folder.iterdir())
    except OSError as error:
        raise unwritable(folder, error, "name another folder") from None
    if foreign:
        raise FedloomError(f"{folder} contains something else: name a new folder for the audit.")


def _schedule(subject: Subject, settings: Sequence[RunVariant], budget: Budget, folder: Path, watch: Watch) -> Schedule:
    """What is to be played, after a look at how long it takes."""
    probes, reserve = all_probes(), RESERVE * budget.seconds
    pace = read_pace(folder)
    if pace is None or pace.rounds > subject.rounds:
        pace = _new_pace(subject, settings, budget, reserve)
        write_pace(folder, pace)
    return Schedule(subject, probes, settings, pace, budget, reserve, folder, watch)


def _new_pace(subject: Subject, settings: Sequence[RunVariant], budget: Budget, reserve: float) -> Pace:
    first = Trial(subject, settings[0].values or {}, subject.seed, 1, left=lambda: budget.seconds_left - reserve)
    possible = sum(one.values is not None for one in settings)
    try:
        with quiet():
            return measure_pace(first, (PLAIN, *all_probes()), possible, budget.seconds, budget.clock)
    except OutOfTime:
        raise FedloomError(
            f"a few rounds of the run alone take more than {budget.seconds / 60:g} minutes: give more minutes."
        ) from None


def _conclude(
    schedule: Schedule, results: Mapping[Cell, CellResult], prepared: Prepared, minutes: float, out: Path | None
) -> Audit:
    """What the cells say together."""
    score = score_of(prepared.plain)
    findings = find_all(schedule.probes, schedule.settings, results, score.higher_is_better)
    found = Audit(
        task=task_title(prepared.plain),
        method=History(prepared.plain).label,
        clients=prepared.composition.task.federation.clients,
        rounds=schedule.subject.rounds,
        rounds_played=schedule.pace.rounds,
        seed=schedule.subject.seed,
        minutes=minutes,
        score_name=score.title,
        score_is_share=score.is_share,
        higher_is_better=score.higher_is_better,
        config=prepared.plain,
        protections=protections(schedule.settings, findings, results, score.higher_is_better),
        findings=findings,
        folder=out,
    )
    return replace(found, assessment=paragraphs(found))
