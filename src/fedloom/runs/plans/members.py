"""The members of a plan: configs that are run with every seed, each run read, resumed or started.

A plan's runs go on side by side where it has several cores (``side_by_side.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedloom.config.resolve import method_from_config, resolve, task_from_config
from fedloom.config.schema import RunConfig
from fedloom.config.settings import DEFAULT_ROUNDS
from fedloom.core.algorithm import Algorithm, exchanges
from fedloom.core.task import Task
from fedloom.runs.callbacks.callback import Observer
from fedloom.runs.folder.fingerprint import TO_RUN_ANYWAY, fingerprint, refuse_other_task
from fedloom.runs.folder.load_config import load_config_to_resume
from fedloom.runs.folder.manifest import Damaged
from fedloom.runs.plans.side_by_side import RunToDo, side_by_side, usable_cores
from fedloom.runs.prepare import Prepared, prepare
from fedloom.runs.results.history import History
from fedloom.runs.run import task_section
from fedloom.runs.runner import execute, resume

log = logging.getLogger("fedloom")
ObserversOf = Callable[[str, int], Sequence[Observer]]
"""The observers for the run of a member (by its label) with a seed."""
TaskOf = Callable[[int], Task]
"""A function from a seed to a task, for tasks that are Python objects and that no config can build."""


@dataclass(frozen=True)
class Member:
    """One config that is run with every seed."""

    label: str
    folder_name: str
    """The name of its runs' folders, without the seed."""
    values: Mapping[str, Any]
    """The values of its config."""
    method: Algorithm | None = None
    """The method, if it is a Python object that the values cannot name."""

    @property
    def rounds(self) -> int:
        """How many rounds its runs have."""
        return int(self.values.get("rounds", DEFAULT_ROUNDS))

    def folder(self, plan_folder: Path, seed: int) -> Path:
        """The folder of its run with a seed."""
        return plan_folder / f"{self.folder_name}-seed{seed}"


@dataclass
class RunFactory:
    """Prepares the runs of members. Runs on the same data share a task; the ``kept_tasks`` newest stay in memory."""

    task_of: TaskOf | None = None
    workers: int | None = None
    task_view: Callable[[Task], Task] = lambda task: task
    """Applied to a task before a run uses it."""
    kept_tasks: int = 1
    cores: int | None = None
    """How many cores a plan uses; None: as many as its runs have workers."""
    tasks: list[tuple[Any, Task]] = field(default_factory=list)

    def prepare(self, member: Member, seed: int, folder: Path | None = None) -> Prepared:
        """Prepare a member's run with a seed; ``folder`` is the run's folder if the run is to be resumed."""
        given = None if self.task_of is None else self._task_object(seed)
        unnamed = None if given is None or given.is_named else given
        if folder is None:
            section = {} if given is None else {"task": task_section(given)}
            config = resolve({**member.values, **section, "seed": seed}, task=unnamed)
        else:
            config = load_config_to_resume(folder, task=unnamed, method=member.method)
            config = config.model_copy(update={"rounds": max(config.rounds, member.rounds)})
        if self.workers is not None:
            config = config.model_copy(update={"workers": self.workers})
        task = self.task(config) if given is None else given
        if folder is None and "task" in config.made_by and seed == member.values.get("seed", RunConfig().seed):
            refuse_other_task(config.made_by, fingerprint(task), "the run of the config file", TO_RUN_ANYWAY)
        algorithm = member.method or method_from_config(config)
        return prepare(self.task_view(task), algorithm, without_idle_parts(config, algorithm))

    def load_task(self, member: Member, seed: int) -> None:
        """Build the task of a member's run, so that processes that are forked now have it."""
        if self.task_of is None:
            self.task(resolve({**member.values, "seed": seed}))
        else:
            self._task_object(seed)

    def task(self, config: RunConfig) -> Task:
        """The task that a config names."""
        return self._find_or_make((config.seed, config.task), lambda: task_from_config(config))

    def _task_object(self, seed: int) -> Task:
        task_of = self.task_of
        if task_of is None:
            raise AssertionError("the task is not a Python object")
        return self._find_or_make(seed, lambda: task_of(seed))

    def _find_or_make(self, key: Any, make: Callable[[], Task]) -> Task:
        known = next((task for other, task in self.tasks if other == key), None)
        if known is None:
            del self.tasks[: max(0, len(self.tasks) - self.kept_tasks + 1)]
            known = make()
            self.tasks.append((key, known))
        return known


def without_idle_parts(config: RunConfig, algorithm: Algorithm) -> RunConfig:
    """The config without the parts that act on updates, for a baseline whose clients send none.

    Local and centralised training are compared with methods that have a channel or another aggregator; they would be
    the same with them. An attack on data stays.
    """
    if exchanges(algorithm):
        return config
    idle: dict[str, Any] = {
        "channel": [],
        "downlink": None,
        "federated_dropout": None,
        "aggregation": RunConfig().aggregation,
    }
    if config.adversary is not None and not config.adversary.acts_on_data:
        idle["adversary"] = None
    return config.model_copy(update=idle)


def run_members(
    folder: Path | None, members: Sequence[Member], seeds: Sequence[int], observers_of: ObserversOf, runs: RunFactory
) -> dict[str, list[History]]:
    """Run the unfinished runs of a plan, seed by seed, so that all members of a seed share one task in memory.

    Without a folder everything stays in memory. The result maps each member's label to one history per seed.
    """
    found = {
        (member.label, seed): None if folder is None else read_finished(member.folder(folder, seed), member)
        for seed in seeds
        for member in members
    }
    missing = [(member, seed) for seed in seeds for member in members if found[member.label, seed] is None]
    at_once, workers = share_of_cores(members[0], runs, len(missing))
    planned = (
        run_to_do(None if folder is None else member.folder(folder, seed), member, seed, observers_of, runs, workers)
        for member, seed in missing
    )
    for key, history in side_by_side(planned, at_once):
        found[key] = history
    return {member.label: [found[member.label, seed] for seed in seeds] for member in members}  # type: ignore[misc]


def share_of_cores(member: Member, runs: RunFactory, missing: int) -> tuple[int, int]:
    """How many runs go on at once, and how many workers each of them has.

    Args:
        member: A member of the plan, whose config says how many workers there are, unless the factory does.
        runs: Prepares the runs.
        missing: How many runs there are to do.
    """
    cores = runs.cores or runs.workers or int(member.values.get("workers", RunConfig().workers))
    at_once = max(1, min(cores, missing))
    return at_once, cores // at_once


def cores_for(values: Mapping[str, Any], workers: int | None) -> int:
    """How many cores a plan uses on the command line: as many as workers were asked for, or all.

    Args:
        values: The values of its config, which may name workers.
        workers: How many workers were asked for now.
    """
    return workers or values.get("workers") or usable_cores()


def run_to_do(
    folder: Path | None, member: Member, seed: int, observers_of: ObserversOf, runs: RunFactory, workers: int
) -> RunToDo[tuple[str, int], History]:
    """A run that is resumed if it was stopped, and started if it is missing. It is prepared here and run elsewhere.

    Args:
        folder: The run's folder; None keeps it in memory.
        workers: How many workers it has, whatever its config says.
    """
    is_new = folder is None or not (folder / "config.toml").exists()
    prepared = runs.prepare(member, seed, None if is_new else folder)
    prepared = replace(prepared, config=prepared.config.model_copy(update={"workers": workers}))

    def do(observers: Sequence[Observer]) -> History:
        if not is_new and folder is not None:
            history = resume(prepared, folder, observers)
        else:
            history = execute(prepared, folder, observers)
        history.rows_of = None  # it would keep the states of all clients of all runs in memory
        return history

    name = f"{member.label} with seed {seed}"
    return RunToDo((member.label, seed), name, do, observers_of(member.label, seed))


def run_member(folder: Path | None, member: Member, seed: int, observers_of: ObserversOf, runs: RunFactory) -> History:
    """Read a run if it is finished, resume it if it was stopped, and start it if it is missing."""
    finished = None if folder is None else read_finished(folder, member)
    if finished is not None:
        return finished
    workers = share_of_cores(member, runs, 1)[1]
    todo = run_to_do(folder, member, seed, observers_of, runs, workers)
    return todo.do(todo.observers)


def read_finished(folder: Path, member: Member) -> History | None:
    """A member's run that is finished, as it is in its folder; None if it is to be run, or to be prolonged."""
    if is_finished(folder):
        try:
            history = History.load(folder)
            if history.can_continue:  # a callback stopped it
                return None
            if history.config["rounds"] >= member.rounds or history.stopped is not None:
                return history
        except Damaged as damage:
            log.warning("%s", damage)
    return None


def is_finished(folder: Path) -> bool:
    """Whether the run in a folder is finished."""
    return (folder / "clients.json").exists()


def folder_name(label: str) -> str:
    """A label as the name of a folder."""
    return "".join(c if c.isalnum() or c in "-_.=," else "_" for c in label)
