"""Advice: a tournament on the user's federation that finds which method to use, within a budget of minutes.

Candidates (``candidates.py``) compete by successive halving (``halving.py``) and are scored on validation data only.
The candidates that the advice names are scored on test data once, from the checkpoints of their last runs
(``advice.py``). ``advice.toml`` in the folder holds the plan. Finished runs are read, so the same call continues a
stopped tournament, and a call with more minutes continues a finished one.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import split_methods, with_method
from fedloom.config.resolve import resolve
from fedloom.config.schema import RunConfig
from fedloom.config.settings import DEFAULT_ROUNDS
from fedloom.config.task_title import task_title
from fedloom.core.arguments import real_number
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.files.atomic_write import write_atomic
from fedloom.files.json_text import parse_json
from fedloom.registry.plain_values import hyperparameters
from fedloom.registry.setting_arguments import documents_settings
from fedloom.rounds.baseline_scores import score_pooled_and_own
from fedloom.rounds.metrics import GROUPS
from fedloom.rounds.record_keys import turns_of
from fedloom.rounds.score import ACCURACY, Score, score_from
from fedloom.runs.folder.fingerprint import fingerprint
from fedloom.runs.plans.advise.advice import Advice, BaselineOutcomes, Cost, picks, with_baseline
from fedloom.runs.plans.advise.candidates import (
    ANCHOR,
    Candidate,
    candidates,
    families,
    method_of,
    parts_of,
    parts_of_task,
)
from fedloom.runs.plans.advise.halving import MOST_SEEDS, Budget, Move, Outcome, Tournament, schedule
from fedloom.runs.plans.members import Member, RunFactory, TaskOf, folder_name, is_finished, run_member
from fedloom.runs.plans.plan import VALID_SHARE, TaskSource, write_plan
from fedloom.runs.results.baselines import LABEL, words_of_seeds
from fedloom.runs.results.history import History
from fedloom.runs.runner import rescore

PLAN = "advice.toml"


@documents_settings(RunConfig, without=("task", "method", "early_stopping"))
def advise(
    task: Task | str | Callable[[int], Task],
    minutes: float = 2.0,
    *,
    methods: Sequence[str] | str | None = None,
    out: str | Path | None = None,
    watch: Callable[[Move], None] = lambda _: None,
    **settings: Any,
) -> Advice:
    """Find the methods to use for small, intermediate and big clients, with a tournament of methods.

    Args:
        task: A task, the name of a task, or a function from a seed to a task. A named task without validation data is
            given some; a task that is a Python object must have validation data.
        minutes: The approximate duration of the tournament.
        methods: Only these methods (and ``local``), as specs or as one comma-separated text.
        out: A folder for the runs. The same call continues a stopped tournament.
        watch: A function that is called before each run.
        **settings: Any other key of a run's config, as for ``fl.run``.
    """
    source = TaskSource.of(task)
    values = {**settings, "task": source.section, "rounds": settings.get("rounds", DEFAULT_ROUNDS)}
    specs = split_methods(methods) if isinstance(methods, str) else methods
    task_of = None if source.is_named else source.of_seed
    folder = None if out is None else Path(out)
    return run_advice(values, minutes, specs, folder, task_of, isinstance(task, Task), watch)


def run_advice(
    values: Mapping[str, Any],
    minutes: float,
    methods: Sequence[str] | None,
    out: Path | None,
    task_of: TaskOf | None = None,
    one_task: bool = False,
    watch: Callable[[Move], None] = lambda _: None,
    cores: int | None = None,
) -> Advice:
    """Run the tournament for a config's values and return the advice; see ``advise``.

    Args:
        values: The values of a config.
        minutes: The approximate duration of the tournament.
        methods: Specs of methods, or None for all candidates.
        task_of: A function from a seed to the task, if the values do not name it.
        one_task: Whether all seeds have the same task.
        watch: A function that is called before each run.
        cores: How many candidates run at once; None: as many as the values name workers.
    """
    if not real_number("minutes", minutes) > 0 or not math.isfinite(minutes):
        raise FedloomError(f"minutes={minutes:g}: it must be a number above 0, for instance 2.")
    if values.get("early_stopping") is not None:
        raise FedloomError("advise decides itself how many rounds a candidate gets: leave out early_stopping.")
    values = _with_validation(values, task_of is None)
    lines = families(methods, parts_of(values["task"]) if task_of is None else parts_of_task(task_of(0)))
    if len(lines) < 2:
        raise FedloomError(
            f"methods={','.join(methods or ())}: name a method besides {ANCHOR}, which always takes part."
        )
    local = _local_work(values, task_of)
    names = {one.label: one for one in candidates(lines, local.lr)}
    with tempfile.TemporaryDirectory() if out is None else nullcontext(str(out)) as folder:
        screening = Screening(Path(folder), {**values, "local": hyperparameters(local)}, names, task_of, one_task)
        screening.check()
        plan = {"minutes": minutes, "config": values, "made_by": {"task": screening.task_fingerprint()}}
        plan |= {} if methods is None else {"methods": list(methods)}
        write_plan(Path(folder), PLAN, plan, task_of is None, may_change=("minutes", "methods"))
        budget = Budget(60 * minutes)
        anchors = [name for name, one in names.items() if one.spec == ANCHOR]
        at_once = cores or int(values.get("workers", RunConfig().workers))
        tournament = Tournament(list(names), screening.run_candidate, budget, anchors, watch, at_once, screening.load)
        tournament.run(schedule(len(names), screening.rounds))
        advice = screening.conclude(tournament, minutes)
    advice = replace(advice, folder=out)
    if out is not None:
        write_atomic(out / "advice.json", json.dumps(advice.as_dict(), allow_nan=False, indent=1).encode())
    return advice


def _with_validation(values: Mapping[str, Any], named: bool) -> dict[str, Any]:
    """The values with as much validation as test data, if the task is named and has no validation data."""
    task = dict(values.get("task", {}))
    test = task.get("test_share", RunConfig().task.test_share)
    if named and not task.get("valid_share") and isinstance(test, int | float):
        task["valid_share"] = test or VALID_SHARE
    kept = {key: value for key, value in values.items() if key not in ("method", "eval_every", "checkpoint_every")}
    return {**kept, "task": task}


def _with_validation_as_test(task: Task) -> Task:
    return replace(task, federation=task.federation.with_validation_as_test())


def _local_work(values: Mapping[str, Any], task_of: TaskOf | None) -> LocalWork:
    """The local work that candidates vary."""
    return resolve(values, task=None if task_of is None else task_of(0)).local


@dataclass
class Screening:
    """Runs candidates in a folder, scores them on validation data, and scores the chosen ones on test data."""

    folder: Path
    values: Mapping[str, Any]
    names: Mapping[str, Candidate]
    task_of: TaskOf | None = None
    one_task: bool = False
    """Whether all seeds have the same task."""
    tasks: RunFactory = field(init=False)
    screened: RunFactory = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = RunFactory(self.task_of, kept_tasks=MOST_SEEDS, cores=1)
        self.screened = replace(self.tasks, task_view=_with_validation_as_test)

    @property
    def seed(self) -> int:
        """The first seed."""
        return int(self.values.get("seed", RunConfig().seed))

    @property
    def rounds(self) -> int:
        """How many rounds the user intends to train."""
        return int(self.values.get("rounds", RunConfig().rounds))

    def check(self) -> None:
        """Refuse a federation with fewer than three clients, or without validation or test data."""
        federation = self.tasks.prepare(
            self.member(next(iter(self.names)), self.rounds), self.seed
        ).composition.task.federation
        if federation.clients < len(GROUPS):
            raise FedloomError(
                f"advice for small, intermediate and big clients needs at least three clients, but this federation has "
                f"{federation.clients}: use fedloom compare."
            )
        federation.with_validation_as_test()
        if not int(federation.test.sizes.sum()):
            raise FedloomError(
                "no client has test data to confirm the choice on: set task.test_share, for instance to 0.2."
            )

    def task_fingerprint(self) -> str:
        """The fingerprint of the task of the first seed."""
        _, task = self.tasks.tasks[0]
        return fingerprint(task)

    def member(self, name: str, rounds: int) -> Member:
        """The plan member of a candidate; only the models after the last round are scored."""
        one = self.names[name]
        values = with_method(self.values, one.spec)
        values |= {"rounds": rounds, "eval_every": rounds, "checkpoint_every": rounds}
        values["local"] = {**values["local"], "lr": one.lr}
        return Member(name, f"{folder_name(name)}-rounds{rounds}", values)

    def load(self, seed: int) -> None:
        """Build the task of a seed, which the runs of all candidates share."""
        self.tasks.load_task(self.member(next(iter(self.names)), self.rounds), self.seed + seed)

    def run_folder(self, name: str, rounds: int, seed: int) -> Path:
        """The folder of a candidate's run."""
        return self.member(name, rounds).folder(self.folder, self.seed + seed)

    def run_candidate(self, name: str, rounds: int, seed: int) -> Outcome:
        """Run a candidate, or read its finished run. A refused or broken run is an outcome too."""
        member, folder = self.member(name, rounds), self.run_folder(name, rounds, seed)
        read_only, began = is_finished(folder), time.perf_counter()
        try:
            history = run_member(folder, member, self.seed + seed, lambda *_: (), self.screened)
        except FedloomError as refusal:
            return Outcome(failed=str(refusal))
        except Exception as error:  # one broken method, perhaps a user-defined one, must not end the tournament
            return Outcome(failed=f"{method_of(name)} broke: {type(error).__name__}: {error}")
        if not read_only:
            write_atomic(folder / "seconds.json", json.dumps(time.perf_counter() - began).encode())
        seconds, fixed = _seconds(folder)
        return Outcome(self.by_group(history.clients, seed), seconds, fixed, read_only, history.stopped)

    def by_group(self, rows: Sequence[Mapping[str, Any]], seed: int) -> dict[str, dict[str, float]]:
        """Scores by size group and client. Without natural names, clients of different seeds are different clients."""
        groups = [group for group in GROUPS if any(row["group"] == group for row in rows)]
        found: dict[str, dict[str, float]] = {"all": {}} if len(groups) == 1 else {group: {} for group in groups}
        for row in rows:
            value = row.get(self.score.name)
            score = None if value is None else self.score.rank(value)
            if score is not None and row["group"] in groups:
                client = str(row["client"]) if self.same_clients else f"{seed}/{row['client']}"
                found["all" if len(groups) == 1 else row["group"]][client] = score
        return {group: scores for group, scores in found.items() if scores}

    @property
    def score(self) -> Score:
        """What candidates are compared by: the task's first metric, or accuracy, or the loss."""
        _, task = self.tasks.tasks[0]
        if task.metrics or task.objective.score == ACCURACY.name:
            return score_from(task.metrics)
        return Score("loss", higher_is_better=False, is_share=False)

    @property
    def same_clients(self) -> bool:
        """Whether a client's number means the same client with every seed."""
        _, task = self.tasks.tasks[0]
        return self.one_task or bool(task.federation.names) or self.values["task"].get("seed") is not None

    def test_outcome(self, name: str, rounds: int, seed: int) -> Outcome:
        """A finished candidate's scores on test data."""
        prepared = self.tasks.prepare(self.member(name, rounds), self.seed + seed)
        return Outcome(self.by_group(rescore(prepared, self.run_folder(name, rounds, seed)), seed))

    def baseline_outcomes(self, rounds: int, seeds: int) -> dict[str, BaselineOutcomes]:
        """What the task's baselines score on validation and on test data, with each seed."""
        found: dict[str, BaselineOutcomes] = {}
        words: dict[str, set[str]] = {}
        member = self.member(next(iter(self.names)), rounds)
        for seed in range(seeds):
            for part, tasks in (("valid", self.screened), ("test", self.tasks)):
                for one in score_pooled_and_own(tasks.prepare(member, self.seed + seed).composition, rounds):
                    words.setdefault(LABEL + one["name"], set()).add(one["words"])
                    scored = found.setdefault(LABEL + one["name"], BaselineOutcomes(one["words"], [], []))
                    getattr(scored, part).append(Outcome(self.by_group(one["clients"], seed)))
        return {
            name: replace(one, words=words_of_seeds(name.removeprefix(LABEL), words[name]))
            for name, one in found.items()
        }

    def cost(self, name: str, rounds: int) -> Cost:
        """The bytes and steps of a candidate per participating client and round."""
        run = History.load(self.run_folder(name, rounds, 0))
        turns = sum(turns_of(record) for record in run.records if record["round"]) or 1
        return Cost(*(run.total(what) / turns for what in ("bytes_up", "bytes_down", "steps", "bytes_between")))

    def conclude(self, tournament: Tournament, minutes: float) -> Advice:
        """The advice; an error says why there is none."""
        _refuse_without_result(tournament, minutes)
        last = tournament.rungs[-1]
        scored: dict[str, list[Outcome]] = {}

        def test_outcomes(name: str) -> list[Outcome]:
            if name not in scored:
                scored[name] = [self.test_outcome(name, last.rounds, seed) for seed in range(last.seeds)]
            return scored[name]

        costs = {name: self.cost(name, last.rounds) for name in last.candidates}
        first = History.load(self.run_folder(last.candidates[0], last.rounds, 0))
        sizes = {group: [row["train"] for row in first.clients if row["group"] == group] for group in GROUPS}
        groups, overall, regrets = picks(tournament, costs, test_outcomes, method_of, sizes)
        baselines = self.baseline_outcomes(last.rounds, last.seeds)
        groups = [with_baseline(pick, baselines, test_outcomes) for pick in groups]
        overall = with_baseline(overall, baselines, test_outcomes)
        costs |= dict.fromkeys(baselines, Cost(0, 0, 0))
        return Advice(
            task=task_title(self.values),
            score=self.score.name,
            higher_is_better=self.score.higher_is_better,
            is_share=self.score.is_share,
            groups=tuple(groups),
            overall=overall,
            regrets=regrets,
            costs=costs,
            rungs=tuple(tournament.rungs),
            cannot_run=tournament.failed,
            not_run=tuple(tournament.not_run),
            rounds=self.rounds,
            minutes=minutes,
            seconds=tournament.budget.seconds_spent,
            baselines={name: one.words for name, one in baselines.items()},
        )


def _seconds(folder: Path) -> tuple[float, float]:
    """How long a run took, and how much of that was not spent in its rounds."""
    path = folder / "timings.jsonl"
    lines = [parse_json(line) for line in path.read_text().splitlines()] if path.exists() else []
    rounds = sum(float(line.get("seconds", 0)) for line in lines if line["round"])
    whole = folder / "seconds.json"  # missing if the process stopped just after the run ended
    seconds = float(parse_json(whole.read_text())) if whole.exists() else rounds
    return max(seconds, rounds), max(seconds - rounds, 0.0)


def _refuse_without_result(tournament: Tournament, minutes: float) -> None:
    methods = {method_of(name) for rung in tournament.rungs[:1] for name in rung.candidates}
    if len(methods) >= 2:
        return
    if tournament.not_run:
        runs_done, longest = len(tournament.outcomes), max(one.seconds for one in tournament.outcomes.values())
        raise FedloomError(
            f"{minutes:g} minutes were enough for {runs_done} of {len(tournament.names)} candidates (one took "
            f"{longest:.1f} s): give more minutes; with --out, finished runs are kept."
        )
    name, why = next(iter(tournament.failed.items()))
    raise FedloomError(f"fewer than two methods can run on this task; {name}, for one: {why}")
