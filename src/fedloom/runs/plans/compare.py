"""Comparisons: several methods on the same data with the same seeds.

``comparison.toml`` in the folder holds the plan; each run has its own folder, ``METHOD-seedN``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import label_of, method_from, with_method
from fedloom.config.settings import DEFAULT_ROUNDS
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import real_number, whole_number
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import METHODS, PREDICTION_STAGES
from fedloom.registry.nested_keys import flatten
from fedloom.registry.validation import read_toml
from fedloom.rounds.score import score_of
from fedloom.runs.folder.old_folders import refuse_other_version
from fedloom.runs.more_rounds import refuse_if_rounds_matter
from fedloom.runs.plans import sweep
from fedloom.runs.plans.members import Member, ObserversOf, RunFactory, TaskOf, folder_name, is_finished, run_members
from fedloom.runs.plans.plan import first_seed, load_plan, seeds_of, write_plan
from fedloom.runs.results.history import History
from fedloom.runs.run import method_section

PLAN = "comparison.toml"
OBJECTS = "method_objects"
"""The key of a plan with the specs of methods that only Python can make."""


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
    methods, seeds = [label_of(spec) for spec in methods], whole_number("seeds", seeds)
    reach = None if reach is None else real_number("reach", reach)
    if not methods:
        raise FedloomError("there is no method to compare: give some, for instance fedavg and local.")
    if len(set(methods)) < len(methods):
        raise FedloomError(f"a method is named twice in {' '.join(methods)}: name each method once.")
    asked: dict[str, Any] = {} if reach is None else {"reach": reach}
    asked |= {OBJECTS: own} if (own := _unnamed_methods(objects or {})) else {}
    plan = {"methods": methods, "seeds": seeds, **asked, "config": dict(values)}
    runs = RunFactory(task_of)
    for member in _members(plan, objects):
        prepared = runs.prepare(member, first_seed(plan))
        score = score_of(prepared.plain)
        if reach is not None and score.is_share and not 0 < reach <= 1:
            what = "an accuracy" if score.name == "accuracy" else f"a value of {score.title}"
            raise FedloomError(f"reach={reach:g}: it must be {what} above 0 and at most 1, for instance 0.8.")
    return plan


def write_comparison(
    folder: Path,
    plan: Mapping[str, Any],
    task_is_named: bool = True,
    task_of: TaskOf | None = None,
    objects: Mapping[str, Algorithm] | None = None,
) -> dict[str, Any]:
    """Write a plan into a new folder, or add it to the comparison that is there, and return the whole plan.

    A comparison only grows: methods and seeds that are there stay. Its data and its other settings must be the same.

    Args:
        folder: The folder of the comparison.
        plan: What ``make_plan`` returned.
        task_is_named: Whether the plan's config can build the task.
        task_of: The task as a function of the seed, if the values do not name it.
        objects: Methods that are Python objects, by their specs.
    """
    grown = dict(plan)
    if (folder / PLAN).exists():
        refuse_other_version(folder, read_toml(folder / PLAN))
        before = load_plan(folder, PLAN)
        rounds = before["config"].get("rounds", DEFAULT_ROUNDS)
        grown = {
            "methods": [*dict.fromkeys((*before["methods"], *plan["methods"]))],
            "seeds": max(before["seeds"], plan["seeds"]),
            "reach": plan.get("reach", before.get("reach")),
            OBJECTS: [*dict.fromkeys((*before.get(OBJECTS, ()), *plan.get(OBJECTS, ())))],
            "config": _with_rounds(plan["config"], rounds, folder),
        }
        grown = {key: value for key, value in grown.items() if value}
        if grown["config"].get("rounds", DEFAULT_ROUNDS) > rounds:
            _check_rounds(grown, task_of, objects)
    write_plan(folder, PLAN, grown, task_is_named, may_change=("methods", "seeds", "reach", OBJECTS, "config.rounds"))
    return grown


def _with_rounds(values: Mapping[str, Any], before: int, folder: Path) -> dict[str, Any]:
    """The values of a plan with the rounds that it had, unless they give more."""
    if "rounds" not in values:
        return {**values, "rounds": before} if before != DEFAULT_ROUNDS else dict(values)
    if values["rounds"] < before:
        raise FedloomError(
            f"rounds={values['rounds']}: the comparison in {folder} has {before} rounds already, and it only grows: "
            "give more, or name another folder."
        )
    return dict(values)


def _check_rounds(
    plan: Mapping[str, Any], task_of: TaskOf | None, objects: Mapping[str, Algorithm] | None = None
) -> None:
    """Refuse more rounds for a comparison with a run that would have been another with them."""
    runs = RunFactory(task_of)
    for member in _members(plan, objects):
        if member.method is not None or member.label not in plan.get(OBJECTS, ()):
            refuse_if_rounds_matter(runs.prepare(member, first_seed(plan)).composition)


def prolong_comparison(folder: Path, plan: Mapping[str, Any], rounds: int, task_of: TaskOf | None) -> dict[str, Any]:
    """Give the comparison in a folder more rounds, and return its plan.

    Args:
        folder: The folder of the comparison.
        rounds: How many rounds its runs are to have.
        task_of: The task as a function of the seed, if the plan does not name it.
    """
    asked = {**plan["config"], "rounds": whole_number("rounds", rounds)}
    longer = {**plan, "config": _with_rounds(asked, plan["config"].get("rounds", DEFAULT_ROUNDS), folder)}
    if longer["config"] != plan["config"]:
        _check_rounds(longer, task_of)
        write_plan(folder, PLAN, longer, "task_is_an_object" not in plan, may_change=("config.rounds",))
    return longer


def run_comparison(
    folder: Path | None,
    plan: Mapping[str, Any],
    observers_of: ObserversOf,
    runs: RunFactory,
    objects: Mapping[str, Algorithm] | None = None,
) -> dict[str, list[History]]:
    """Run the unfinished runs of a comparison, and return the histories of each method, one per seed.

    Args:
        folder: The folder of the comparison; None keeps everything in memory.
        runs: Prepares the runs.
        objects: Methods that are Python objects, by their specs.
    """
    members = _members(plan, objects)
    for member in members:
        if folder is None or member.method is not None or member.label not in plan.get(OBJECTS, ()):
            continue
        if not all(is_finished(member.folder(folder, seed)) for seed in seeds_of(plan)):
            raise FedloomError(
                f"the method {member.label} of {folder} is a Python object, which a file cannot store: repeat the "
                "Python call that started the comparison, with the same out."
            )
    return run_members(folder, members, seeds_of(plan), observers_of, runs)


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
    """The runs in some folders, by method: those of a plan in its order, then the others by name; seed by seed.

    A folder may be that of a run or of a plan, or contain folders of runs.
    """
    found: dict[str, list[History]] = {}
    planned: list[str] = []
    runs: dict[Path, History] = {}
    for folder in folders:
        labels = {member.folder_name: member.label for member in _plan_members(folder)}
        planned += labels.values()
        inside = sorted(path.parent for path in folder.glob("*/config.toml"))
        here = [folder] if (folder / "config.toml").exists() else inside
        if not here:
            raise FedloomError(f"there is no run in {folder}: name the folder of a run or of a comparison.")
        for run in here:
            if run.resolve() in runs:
                raise FedloomError(f"the run {run} is named twice: name each run once.")
            history = runs[run.resolve()] = History.load(run)
            label = labels.get(run.name.rpartition("-seed")[0]) or label_with_settings(history)
            found.setdefault(label, []).append(history)
    if len(folders) > 1:
        _check_same_task(runs)
    in_order = dict.fromkeys([*(label for label in planned if label in found), *sorted(found)])
    return {label: sorted(found[label], key=lambda run: int(run.config.get("seed", 0))) for label in in_order}


def _check_same_task(runs: Mapping[Path, History]) -> None:
    """Refuse runs of different tasks: their scores are not seeds of one thing, and nobody wins."""
    tasks = {folder: run.config["task"].get("path") or run.config["task"]["name"] for folder, run in runs.items()}
    (first, task), *others = tasks.items()
    for folder, other in others:
        if other != task:
            raise FedloomError(
                f"{first.name} is a run of {task} and {folder.name} one of {other}: report the runs of each task apart."
            )


def _unnamed_methods(objects: Mapping[str, Algorithm]) -> list[str]:
    """The specs of methods that are Python objects and that no spec can make again."""
    return [label for label, method in objects.items() if METHODS.name_of(type(method)) is None]


def _plan_members(folder: Path) -> list[Member]:
    """The members of the plan in a folder, if there is one."""
    if (folder / PLAN).exists():
        return _members(load_plan(folder, PLAN))
    return sweep.members(load_plan(folder, sweep.PLAN)) if (folder / sweep.PLAN).exists() else []


def label_with_settings(history: History) -> str:
    """The method with its non-default settings, so that runs with different settings get different labels."""
    settings = dict(history.config["method"])
    name = str(settings.pop("name"))
    method = label_of(method_from(name, settings)) if name in METHODS else name
    stages = [dict(stage) for stage in history.config.get("prediction", ())]
    return "+".join([method, *map(_stage_label, stages)])


def _stage_label(stage: dict[str, Any]) -> str:
    """A stage with its non-default settings; of a user's own, which is not loaded for that, with all of them."""
    name = str(stage["name"])
    if ":" not in name:
        return label_of(PREDICTION_STAGES.make_one(stage))
    settings = ",".join(f"{key}={value}" for key, value in flatten(stage) if key != "name")
    return ":".join([name.rpartition(":")[2].lower(), settings]).rstrip(":")
