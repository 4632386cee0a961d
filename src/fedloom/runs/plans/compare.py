"""Several methods on the same data with the same seeds, in a folder that can be stopped and gone on with.

``comparison.toml`` says what is compared; each run has a folder of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.validation import read_toml
from fedloom.methods.registry import method_class
from fedloom.prediction.registry import STAGE_ALIASES, STAGES
from fedloom.runs.api import label_of, method_from, with_method
from fedloom.runs.config import named_part
from fedloom.runs.history import History
from fedloom.runs.plans import sweep
from fedloom.runs.plans.plan import Member, Watch, Workshop, begin, file_name, go_on

PLAN = "comparison.toml"


def begin_comparison(
    folder: Path, values: dict[str, Any], methods: Sequence[str], seeds: int, reach: float | None = None
) -> None:
    """Write down what is to be compared (and which accuracy is to be reached), after checking all of it."""
    if (folder / PLAN).exists() or (folder / "config.toml").exists():
        raise FedloomError(f"{folder} already holds a comparison or a run: resume it, or name another folder.")
    methods = [label_of(spec) for spec in methods]
    if len(set(methods)) < len(methods):
        raise FedloomError(f"a method is named twice in {' '.join(methods)}: name each once.")
    if seeds < 1:
        raise FedloomError(f"seeds={seeds}: at least one is needed.")
    if reach is not None and not 0 < reach <= 1:
        raise FedloomError(f"reach={reach:g}: an accuracy is above 0 and at most 1, for instance 0.8.")
    asked = {} if reach is None else {"reach": reach}
    plan = {"methods": list(methods), "seeds": seeds, **asked, "config": values}
    workshop = Workshop()
    for member in _members(plan):
        workshop.ready(member, int(values.get("seed", 0)))
    begin(folder, PLAN, plan)


def continue_comparison(folder: Path, watch: Watch, workers: int | None = None) -> dict[str, list[History]]:
    """Do whatever is left to do, seed by seed, so that all methods of a seed share one task in memory."""
    plan = read_toml(folder / PLAN)
    first = int(plan["config"].get("seed", 0))
    return go_on(folder, _members(plan), range(first, first + plan["seeds"]), watch, Workshop(workers=workers))


def _members(plan: Mapping[str, Any]) -> list[Member]:
    return [Member(spec, file_name(spec), with_method(plan["config"], spec)) for spec in plan["methods"]]


def histories(folders: Sequence[Path]) -> dict[str, list[History]]:
    """The runs below some folders, by method: runs, comparisons, or folders of runs."""
    found: dict[str, list[History]] = {}
    for folder in folders:
        labels = {member.place: member.label for member in _planned(folder)}
        inside = sorted(path.parent for path in folder.glob("*/config.toml"))
        for run in [folder] if (folder / "config.toml").exists() else inside:
            history = History.load(run)
            label = labels.get(run.name.rpartition("-seed")[0]) or _label(history)
            found.setdefault(label, []).append(history)
    if not found:
        raise FedloomError(f"there is no run in {', '.join(map(str, folders))}: name a run's folder or a comparison's.")
    return {label: found[label] for label in sorted(found)}


def _planned(folder: Path) -> list[Member]:
    if (folder / PLAN).exists():
        return _members(read_toml(folder / PLAN))
    return sweep.members(read_toml(folder / sweep.PLAN)) if (folder / sweep.PLAN).exists() else []


def _label(history: History) -> str:
    """The method and the settings in which it differs from its defaults, so that two settings are never pooled."""
    settings = dict(history.config["method"])
    name = str(settings.pop("name"))
    method = label_of(method_from(name, settings)) if method_class(name).__name__.lower() == name else name
    stages = [
        named_part(stage, STAGES, PredictionStage, "personal stage", aliases=STAGE_ALIASES)
        for stage in history.config.get("personal", ())
    ]
    return "+".join([method, *(label_of(stage) for stage in stages)])
