"""Sweeps: all combinations of a grid over config keys, with the same seeds, and the best of them.

``sweep.toml`` in the folder says what is swept; each run has a folder of its own, as in a comparison. The first metric
decides which combination is best. It is measured on the clients' test parts, so the best of many is a little lucky:
``fedloom advise`` chooses on validation data instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.core.validation import read_toml, validate
from fedloom.runs.api import local_values, method_from, task_values, with_method
from fedloom.runs.config import RunConfig, hyperparameters
from fedloom.runs.history import History
from fedloom.runs.plans.grid import Grid, Settings, applied, checked, combinations, label
from fedloom.runs.plans.plan import Member, TaskOf, Watch, Workshop, as_read, begin, file_name, go_on
from fedloom.runs.plans.sweep_table import best_row, sweep_figure, sweep_rows, sweep_verdict

PLAN = "sweep.toml"
DEFAULT_METRICS = ("clients", "global")
METRICS = {
    "clients": "client_model/own_test/{score}/mean",
    "global": "global_model/global_test/{score}",
    "worst": "client_model/own_test/{score}/worst_decile",
    "spread": "client_model/own_test/{score}/std",
    "small": "client_model/own_test/{score}/small",
    "intermediate": "client_model/own_test/{score}/intermediate",
    "big": "client_model/own_test/{score}/big",
    "loss": "client_model/own_test/loss/mean",
}
"""Short names of metrics; any full name works too."""
OVER = "mean|std|weighted|worst_decile|small|intermediate|big|new|per_selected"


@dataclass(frozen=True)
class Sweep:
    """What a sweep measured: for every combination its settings and a history per seed."""

    grid: Grid
    settings: dict[str, Settings]
    runs: dict[str, list[History]]
    metrics: tuple[str, ...]
    folder: Path | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per combination, the best first: ``settings``, each metric's mean and std over seeds, the costs."""
        return sweep_rows(self.settings, self.runs, self.metrics)

    @property
    def best(self) -> Settings:
        """The settings of the best combination."""
        return dict(best_row(self.rows)["settings"])

    def plot(self, path: str | Path | None = None) -> Any:
        """The first metric over the grid as a matplotlib figure, also saved to ``path`` if given."""
        figure = sweep_figure(self.grid, self.rows, self.metrics[0])
        if path is not None:
            figure.savefig(path, bbox_inches="tight")
        return figure

    def __str__(self) -> str:
        return sweep_verdict(self.rows, self.metrics)


def sweep(
    task: Task | str | Callable[[int], Task],
    method: str | Algorithm | type[Algorithm] = "fedavg",
    *,
    grid: Mapping[str, Iterable[Any]],
    seeds: int = 1,
    metrics: Sequence[str] = DEFAULT_METRICS,
    out: str | Path | None = None,
    **settings: Any,
) -> Sweep:
    """Run every combination of a grid, say ``{"method.mu": [0.01, 0.1], "local.lr": [0.05, 0.1]}``.

    ``task`` and ``settings`` are those of ``fl.run`` (``task`` may be a function of the seed); ``metrics`` are short
    names (``fedloom.runs.plans.sweep.METRICS``) or full ones. With ``out`` the same call goes on where it was stopped.
    """
    section, given = task_values(task)
    values = {key: hyperparameters(value) if isinstance(value, LocalWork) else value for key, value in settings.items()}
    values |= {"task": section, "local": local_values(str(section["name"]), values.get("local", {}))}
    algorithm = None if isinstance(method, str) else method_from(method)
    values = with_method(values, type(algorithm).__name__.lower() if isinstance(algorithm, Algorithm) else str(method))
    plan = make_plan(values, checked(grid), seeds, metrics, given, algorithm)
    folder = None if out is None else Path(out)
    if folder is not None:
        write_plan(folder, plan)
    return play(folder, plan, lambda *_: (), given=given, algorithm=algorithm)


def make_plan(
    values: Mapping[str, Any],
    grid: Grid,
    seeds: int,
    metrics: Sequence[str],
    given: TaskOf | None = None,
    algorithm: Algorithm | None = None,
) -> dict[str, Any]:
    """What is to be swept, after every combination was checked."""
    if seeds < 1:
        raise FedloomError(f"seeds={seeds}: at least one is needed.")
    if given is not None and any(key.split(".")[0] == "task" for key in grid):
        raise FedloomError("a grid over the task's settings needs a task that is named: this one is an object.")
    workshop, scores = Workshop(given), set()
    for member in members({"grid": grid, "config": values}, algorithm):
        prepared = workshop.ready(member, int(values.get("seed", 0)))
        scores.add(prepared.composition.task.objective.score)
        if prepared.config.eval_every == 0:
            raise FedloomError("eval_every=0 measures nothing: a sweep needs scores, so leave it out.")
    names = [full_name(metric, sorted(scores)[0]) for metric in metrics]
    if not names:
        raise FedloomError("a sweep needs a metric: name one of " + ", ".join(METRICS) + ".")
    return {"grid": grid, "seeds": seeds, "metrics": list(dict.fromkeys(names)), "config": dict(values)}


def full_name(metric: str, score: str) -> str:
    """A metric's full name from its short one; ``score`` is what the task calls its score."""
    if metric in METRICS:
        return METRICS[metric].format(score=score)
    own = f"(client|received|trained)_model/own_test/({score}|loss|withheld_recall)/({OVER})"
    if not re.fullmatch(f"global_model/global_test/({score}|loss)|{own}", metric):
        raise unknown("metric", metric, METRICS)
    return metric


def write_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Begin a sweep's folder; one that holds the same sweep is gone on with."""
    if (folder / PLAN).exists():
        if read_toml(folder / PLAN) != as_read(plan):
            raise FedloomError(f"{folder} holds another sweep: name another folder, or resume that one.")
        return
    if (folder / "config.toml").exists() or (folder / "comparison.toml").exists():
        raise FedloomError(f"{folder} already holds a run or a comparison: name another folder.")
    begin(folder, PLAN, plan)


def play(
    folder: Path | None,
    plan: Mapping[str, Any],
    watch: Watch,
    workers: int | None = None,
    given: TaskOf | None = None,
    algorithm: Algorithm | None = None,
) -> Sweep:
    """Do whatever is left of a sweep."""
    first = int(plan["config"].get("seed", RunConfig().seed))
    family = members(plan, algorithm)
    runs = go_on(folder, family, range(first, first + plan["seeds"]), watch, Workshop(given, workers))
    settings = {label(chosen): chosen for chosen in combinations(plan["grid"])}
    return Sweep(dict(plan["grid"]), settings, runs, tuple(plan["metrics"]), folder)


def members(plan: Mapping[str, Any], algorithm: Algorithm | None = None) -> list[Member]:
    """The combinations of a plan's grid."""
    found = []
    for number, chosen in enumerate(combinations(plan["grid"]), 1):
        values = applied(plan["config"], chosen)
        own = None
        if algorithm is not None:
            options = {**hyperparameters(algorithm), **{k: v for k, v in values["method"].items() if k != "name"}}
            own = validate(type(algorithm), options, f"method {type(algorithm).__name__}")
        name = label(chosen)
        found.append(Member(name, f"{number:03d}-{file_name(name)[:80]}", values, own))
    return found
