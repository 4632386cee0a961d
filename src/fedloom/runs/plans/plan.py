"""Runs that belong together, in a folder that can be stopped and gone on with.

A member has a label and a config's values, and is run with every seed. A run that is finished is read, one that was
stopped goes on, one that is missing is started: starting and resuming are the same thing. A comparison and a sweep
are two ways to name the members.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.runs.api import completed, load_config, make_task, method_of
from fedloom.runs.checkpoint import write_whole
from fedloom.runs.config import RunConfig, parse, to_toml
from fedloom.runs.history import History
from fedloom.runs.runner import Observer, Prepared, execute, prepare, resume

Watch = Callable[[str, int], Sequence[Observer]]
"""Observers for the run of a member with a seed."""
TaskOf = Callable[[int], Task]
"""The task of a seed, where it is an object of one's own and not made from the config."""


@dataclass(frozen=True)
class Member:
    """What is run with every seed: ``values`` are a config's, ``place`` is its folder's name before the seed."""

    label: str
    place: str
    values: Mapping[str, Any]
    algorithm: Algorithm | None = None
    """A method of one's own, where the values do not name one."""


@dataclass
class Workshop:
    """Makes runs ready; runs on the same data share one task in memory, of which the ``remembers`` newest stay there.

    ``seen`` is what runs see of a task, where that is not all of it.
    """

    given: TaskOf | None = None
    workers: int | None = None
    seen: Callable[[Task], Task] = lambda task: task
    remembers: int = 1
    tasks: list[tuple[Any, Task]] = field(default_factory=list)

    def ready(self, member: Member, seed: int, begun: Path | None = None) -> Prepared:
        """A member's run with a seed, checked; ``begun`` is the folder in which it was begun."""
        config = parse({**member.values, "seed": seed}) if begun is None else load_config(begun)
        if self.workers is not None:
            config = config.model_copy(update={"workers": self.workers})
        config = completed(config) if self.given is None else config
        return prepare(self.seen(self.task(config)), member.algorithm or method_of(config), config)

    def task(self, config: RunConfig) -> Task:
        """The task of a config."""
        asked = (config.seed, config.task)
        known = next((task for key, task in self.tasks if key == asked), None)
        if known is None:
            del self.tasks[: max(0, len(self.tasks) - self.remembers + 1)]
            known = make_task(config) if self.given is None else self.given(config.seed)
            self.tasks.append((asked, known))
        return known


def begin(folder: Path, plan_name: str, plan: Mapping[str, Any]) -> None:
    """Write down what is to be done in a folder."""
    content = _written(plan)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / plan_name, content)
    except OSError as error:
        raise FedloomError(f"{folder} cannot be written ({error.strerror}): name another folder.") from None


def as_read(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as it will be read from its file."""
    return tomllib.loads(_written(plan).decode())


def _written(plan: Mapping[str, Any]) -> bytes:
    try:
        return to_toml(plan)
    except TypeError as error:
        raise FedloomError(f"these settings cannot be written down ({error}): give plain values.") from None


def go_on(
    folder: Path | None, members: Sequence[Member], seeds: Sequence[int], watch: Watch, workshop: Workshop
) -> dict[str, list[History]]:
    """Do whatever is left to do, seed by seed, in memory if there is no folder."""
    results: dict[str, list[History]] = {member.label: [] for member in members}
    for seed in seeds:
        for member in members:
            where = None if folder is None else folder / f"{member.place}-seed{seed}"
            results[member.label].append(played(where, member, seed, watch, workshop))
    return results


def played(where: Path | None, member: Member, seed: int, watch: Watch, workshop: Workshop) -> History:
    """One run: read if it is finished, gone on with if it was stopped, started if it is missing."""
    if where is not None and finished(where):
        return History.load(where)
    if where is None or not (where / "config.toml").exists():
        return execute(workshop.ready(member, seed), where, watch(member.label, seed))
    return resume(workshop.ready(member, seed, where), where, watch(member.label, seed))


def finished(folder: Path) -> bool:
    """Whether a run's folder has all it will ever have."""
    return (folder / "clients.json").exists()


def file_name(label: str) -> str:
    """A label as the name of a folder."""
    return "".join(c if c.isalnum() or c in "-_.=," else "_" for c in label)
