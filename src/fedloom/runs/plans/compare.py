"""Comparisons: several methods on the same data with the same seeds.

``comparison.toml`` in the folder holds the plan; each run has its own folder, ``METHOD-seedN``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.core.validation import read_toml
from fedloom.methods.registry import method_class
from fedloom.runs.api import method_section, warn_if_stopped
from fedloom.runs.history import History
from fedloom.runs.method_spec import Method, label_of, method_from, with_method
from fedloom.runs.named_parts import make_stage
from fedloom.runs.old_folders import with_new_keys
from fedloom.runs.plans import sweep
from fedloom.runs.plans.plan import (
    Member,
    ObserversOf,
    RunFactory,
    TaskOf,
    TaskSource,
    first_seed,
    folder_name,
    read_plan,
    run_members,
    seeds_of,
    write_plan,
)
from fedloom.runs.runner import Observer
from fedloom.runs.score import score_of

PLAN = "comparison.toml"


def compare(
    task: Task | str | TaskOf,
    methods: Sequence[Method],
    *,
    seeds: int = 1,
    out: str | Path | None = None,
    observers: Sequence[Observer] = (),
    **settings: Any,
) -> dict[str, list[History]]:
    """Run several methods on the same data with the same seeds.

    If a method diverges, its measurements are kept and the comparison continues.

    Args:
        task: A task, the name of a task, or a function from a seed to a task, so that each seed has its own partition
            and model.
        methods: Specs (``"fedprox:mu=0.1"``), methods or classes of methods.
        seeds: How many seeds each method is run with; the first is ``seed`` (default 0).
        out: A folder for the comparison. The same call continues a stopped comparison, and so does ``fedloom resume``
            if the task and the methods have names.
        observers: Functions that are called with each round's record.
        **settings: Any other key of a run's config, as for ``fl.run``.

    Returns:
        The histories of each method, one per seed, under the method's spec.
    """
    source = TaskSource.of(task)
    chosen = [method_from(spec) if isinstance(spec, type) else spec for spec in methods]
    objects = {label_of(method): method for method in chosen if isinstance(method, Algorithm)}
    labels = [label_of(method) for method in chosen]
    plan = make_plan({**settings, "task": source.section}, labels, seeds, task_of=source.of_seed, objects=objects)
    folder = None if out is None else Path(out)
    if folder is not None:
        write_plan(folder, PLAN, plan, source.is_named)
    runs = RunFactory(source.of_seed)
    found = run_members(folder, _members(plan, objects), seeds_of(plan), lambda *_: observers, runs)
    warn_if_stopped(history for histories in found.values() for history in histories)
    return found


def make_plan(
    values: Mapping[str, Any],
    methods: Sequence[str],
    seeds: int,
    reach: float | None = None,
    task_of: TaskOf | None = None,
    objects: Mapping[str, Algorithm] | None = None,
) -> dict[str, Any]:
    """Check every method and return the plan of the comparison.

    Args:
        values: The values of a config, without a method.
        methods: The methods' specs.
        seeds: How many seeds each method is run with.
        reach: A value of the score; the comparison then also reports after how many rounds each method reached it.
        task_of: The task as a function of the seed, if the values do not name it.
        objects: Methods that are Python objects, by their specs.
    """
    methods = [label_of(spec) for spec in methods]
    if len(set(methods)) < len(methods):
        raise FedloomError(f"a method is named twice in {' '.join(methods)}: name each method once.")
    if seeds < 1:
        raise FedloomError(f"seeds={seeds}: it must be at least 1.")
    asked = {} if reach is None else {"reach": reach}
    plan = {"methods": methods, "seeds": seeds, **asked, "config": dict(values)}
    runs = RunFactory(task_of)
    for member in _members(plan, objects):
        prepared = runs.prepare(member, first_seed(plan))
        score = score_of(prepared.plain)
        if reach is not None and score.is_share and not 0 < reach <= 1:
            what = "an accuracy" if score.name == "accuracy" else f"a value of {score.title}"
            raise FedloomError(f"reach={reach:g}: it must be {what} above 0 and at most 1, for instance 0.8.")
    return plan


def resume_comparison(folder: Path, observers_of: ObserversOf, workers: int | None = None) -> dict[str, list[History]]:
    """Run the unfinished runs of the comparison in a folder."""
    plan = read_plan(folder, PLAN)
    return run_members(folder, _members(plan), seeds_of(plan), observers_of, RunFactory(workers=workers))


def _members(plan: Mapping[str, Any], objects: Mapping[str, Algorithm] | None = None) -> list[Member]:
    members = []
    for spec in plan["methods"]:
        method = (objects or {}).get(spec)
        if method is None:
            values = with_method(plan["config"], spec)
        else:
            values = {**plan["config"], "method": method_section(method)}
        members.append(Member(spec, folder_name(spec), values, method))
    return members


def histories(folders: Sequence[Path]) -> dict[str, list[History]]:
    """The runs in some folders, by method. A folder may be that of a run or of a plan, or contain folders of runs."""
    found: dict[str, list[History]] = {}
    for folder in folders:
        labels = {member.folder_name: member.label for member in _plan_members(folder)}
        inside = sorted(path.parent for path in folder.glob("*/config.toml"))
        for run in [folder] if (folder / "config.toml").exists() else inside:
            history = History.load(run)
            label = labels.get(run.name.rpartition("-seed")[0]) or _label(history)
            found.setdefault(label, []).append(history)
    if not found:
        raise FedloomError(
            f"there is no run in {', '.join(map(str, folders))}: name the folder of a run or of a comparison."
        )
    return {label: found[label] for label in sorted(found)}


def _plan_members(folder: Path) -> list[Member]:
    """The members of the plan in a folder, if there is one."""
    if (folder / PLAN).exists():
        return _members(with_new_keys(read_toml(folder / PLAN)))
    return sweep.members(with_new_keys(read_toml(folder / sweep.PLAN))) if (folder / sweep.PLAN).exists() else []


def _label(history: History) -> str:
    """The method with its non-default settings, so that runs with different settings get different labels."""
    settings = dict(history.config["method"])
    name = str(settings.pop("name"))
    method = label_of(method_from(name, settings)) if method_class(name).__name__.lower() == name else name
    stages = [make_stage(stage) for stage in history.config.get("prediction", ())]
    return "+".join([method, *(label_of(stage) for stage in stages)])
