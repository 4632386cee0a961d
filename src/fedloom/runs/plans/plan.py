"""Plans: groups of runs in one folder, which can be stopped and resumed together.

Comparisons, sweeps, advice and audits are plans. A plan has members. A member has a label and the values of a config,
and is run with every seed. A finished run is read, a stopped run is resumed and a missing run is started, so starting a
plan and resuming it are the same. The plan is stored in ``comparison.toml``, ``sweep.toml``, ``advice.toml`` or
``audit.toml``; each run has its own folder beside that file or below it. (Of an audit's runs only results are kept.)
"""

from __future__ import annotations

import inspect
import logging
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any

import fedloom
from fedloom.config.schema import RunConfig, to_toml
from fedloom.core.errors import FedloomError, unwritable
from fedloom.core.task import Task, check_task
from fedloom.files.atomic_write import write_atomic
from fedloom.files.formats import SETTINGS
from fedloom.registry.code_consent import NOTE, code_notes, refuse_changed_code, remember_notes
from fedloom.registry.kinds import PARTS
from fedloom.registry.plain_values import hyperparameters, without_none
from fedloom.registry.validation import read_toml
from fedloom.runs.folder.old_folders import refuse_other_version, with_new_keys
from fedloom.runs.plans.members import TaskOf
from fedloom.runs.run import task_section

log = logging.getLogger("fedloom")
PLAN_FILES = {
    "comparison.toml": "comparison",
    "sweep.toml": "sweep",
    "advice.toml": "advice",
    "audit.toml": "audit",
}
KEYS: dict[str, dict[str, type]] = {
    "comparison.toml": {"config": dict, "methods": list, "seeds": int},
    "sweep.toml": {"config": dict, "grid": dict, "seeds": int},
    "advice.toml": {"config": dict},
    "audit.toml": {"config": dict},
}
"""What the plans of every version have."""
VALID_SHARE = 0.2
"""The share of clients' samples that plans set aside for validation where there is no test share to go by."""


@dataclass(frozen=True)
class TaskSource:
    """The task of a plan: its config section, and a function from a seed to the task if it is a Python object."""

    section: dict[str, Any]
    of_seed: TaskOf | None = None
    is_named: bool = True
    """Whether the section can rebuild the task with every seed."""

    @staticmethod
    def of(task: Task | str | TaskOf) -> TaskSource:
        """The source for a task, for the name of a task, or for a function from a seed to a task."""
        if isinstance(task, str):
            return TaskSource({"name": task})
        if isinstance(task, Task):
            return TaskSource(task_section(task), lambda _: task, task.is_named)
        if not callable(task):
            check_task(task)
        try:
            inspect.signature(task).bind(0)
        except TypeError:
            raise FedloomError("task is a function: it must take the seed, and return a task.") from None
        return TaskSource(task_section(check_task(task(0), "task(0)")), task, False)


def write_plan(
    folder: Path, file: str, plan: Mapping[str, Any], task_is_named: bool = True, may_change: Collection[str] = ()
) -> None:
    """Write a plan into a folder that is new or holds the same plan; another plan or a run in it is an error.

    Args:
        folder: The plan's folder.
        file: The name of the plan's file, which determines the kind of plan.
        plan: The plan; its ``config`` has the values of a run's config.
        task_is_named: Whether the plan's config can build the task. Otherwise only Python can resume the plan.
        may_change: Keys of the plan, dotted, in which the folder's plan may differ.
    """
    content = plan_bytes(plan, task_is_named)
    now = tomllib.loads(content.decode())
    if (folder / file).exists():
        before = read_toml(folder / file)
        kind, notes = PLAN_FILES[file], code_notes(before)
        refuse_other_version(folder, before)
        changed = [note for note, digest in before.get("made_by", {}).items() if notes.get(note, digest) != digest]
        if changed:
            raise FedloomError(
                f"{changed[0].removeprefix(NOTE)} has changed since the {kind} in {folder} was started: restore it, or "
                "name another folder."
            )
        may_change = (*may_change, *(f"made_by.{note}" for note in (*notes, *code_notes(now))))
        if _without(before, may_change) != _without(now, may_change):
            raise FedloomError(
                f"{folder} contains another {kind}, with other data or settings: name another folder, or resume that "
                f"{kind}."
            )
        if before == now:
            return
    for other, what in {**PLAN_FILES, "config.toml": "run"}.items():
        if other != file and (folder / other).exists():
            raise FedloomError(f"{folder} already contains {with_article(what)}: resume it, or name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / file, content)
    except OSError as error:
        raise unwritable(folder, error, "name another folder") from None
    remember_notes(now)


def _without(values: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Nested values without some dotted keys."""
    kept = {key: value for key, value in values.items() if key not in keys}
    for top, _, below in (key.partition(".") for key in keys):
        if below and isinstance(kept.get(top), Mapping):
            kept[top] = _without(kept[top], [below])
    return kept


def plan_bytes(plan: Mapping[str, Any], task_is_named: bool) -> bytes:
    """The content of a plan's file, including the version of fedloom."""
    given = {} if task_is_named else {"task_is_an_object": True}
    plain = {**plan, **given, "config": plain_values(plan["config"])}
    notes = {"fedloom": fedloom.__version__, "format": str(SETTINGS.version), **plan.get("made_by", {})}
    return to_toml({**plain, "made_by": notes | code_notes(plain)})


def load_plan(folder: Path, file: str) -> dict[str, Any]:
    """Read a plan of any version."""
    plan = with_new_keys(read_toml(folder / file), folder / file)
    for key, kind in KEYS[file].items():
        if not isinstance(plan.get(key), kind):
            raise FedloomError(
                f"{folder / file} has no '{key}', or not the one of a {PLAN_FILES[file]}: restore the file, or start "
                "anew in another folder."
            )
    return plan


def read_plan(folder: Path, file: str, has_task: bool = False) -> dict[str, Any]:
    """Read a plan to resume it; the plan of another version is refused, and one whose task is not there."""
    refuse_other_version(folder, read_toml(folder / file))
    plan = load_plan(folder, file)
    refuse_changed_code(plan, folder)
    if plan.get("task_is_an_object") and not has_task:
        kind = PLAN_FILES[file]
        raise FedloomError(
            f"the task of {folder} is a Python object, which a file cannot store: repeat the Python call that "
            f"started the {kind}, with the same out."
        )
    return plan


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a config with every object as plain values, so that they can be written to a file."""
    plain: dict[str, Any] = {}
    for key, value in values.items():
        kind = next((kind for kind in PARTS if kind.key == key), None)
        if kind is not None and value is not None and not isinstance(value, str | Mapping):
            plain[key] = kind.plain(kind.make(value))
        elif is_dataclass(value) and not isinstance(value, type):
            plain[key] = without_none(hyperparameters(value))
        elif value is not None:
            plain[key] = without_none(value)
    return plain


def first_seed(plan: Mapping[str, Any]) -> int:
    """The first of a plan's seeds."""
    seed = plan["config"].get("seed", RunConfig().seed)
    if not isinstance(seed, int):
        raise FedloomError(f"seed={seed!r}: give a whole number.")
    return seed


def seeds_of(plan: Mapping[str, Any]) -> range:
    """The seeds of a plan."""
    return range(first_seed(plan), first_seed(plan) + plan["seeds"])


def with_article(kind: str) -> str:
    """What a folder contains, as a sentence names it.

    Args:
        kind: A run, or a value of ``PLAN_FILES``.
    """
    return {"advice": "advice", "audit": "an audit"}.get(kind, f"a {kind}")
