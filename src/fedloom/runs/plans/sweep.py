"""Sweeps: run all combinations of a grid over config keys with the same seeds, and find the best combination.

``sweep.toml`` in the folder holds the plan; each run has its own folder, as in a comparison. The first metric decides
which combination is best. It is measured on test data, so the score of the best combination is optimistic:
``fedloom advise`` chooses on validation data instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedloom.config.method_spec import Method, method_from, with_method
from fedloom.config.schema import RunConfig
from fedloom.core.algorithm import Algorithm
from fedloom.core.arguments import path_from, whole_number
from fedloom.core.errors import FedloomError, unknown
from fedloom.core.task import Task
from fedloom.plotting.style import save_figure
from fedloom.registry.plain_values import hyperparameters, without_none
from fedloom.registry.setting_arguments import documents_settings
from fedloom.registry.validation import validate
from fedloom.runs.plans.grid import Grid, Settings, check_grid, combination_label, combinations, with_settings
from fedloom.runs.plans.members import Member, ObserversOf, RunFactory, TaskOf, folder_name, run_members
from fedloom.runs.plans.plan import VALID_SHARE, TaskSource, first_seed, seeds_of, write_plan
from fedloom.runs.plans.sweep_table import (
    best_row,
    sweep_baseline_rows,
    sweep_figure,
    sweep_rows,
    sweep_verdict,
)
from fedloom.runs.results.baseline_verdict import baseline_sentence
from fedloom.runs.results.history import History
from fedloom.runs.run import method_section, warn_if_stopped

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
"""Short names of metrics; full names are accepted too."""
AGGREGATES = "mean|pooled|std|weighted|worst_decile|small|intermediate|big|new|per_selected"


@dataclass(frozen=True, repr=False)
class Sweep:
    """The result of a sweep.

    Args:
        grid: The values that were tried for each config key.
        settings: The settings of each combination, by its label.
        runs: The histories of each combination, one per seed.
        metrics: The names of the reported metrics, on test data.
        chosen_by: The metric on validation data that decides the order.
        set_aside: The share of each client's samples that was set aside for validation; None if clients had validation
            parts already.
        folder: The folder of the sweep; None if it stayed in memory.
    """

    grid: Grid
    settings: dict[str, Settings]
    runs: dict[str, list[History]]
    metrics: tuple[str, ...]
    chosen_by: str
    set_aside: float | None = None
    folder: Path | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per combination, the best first: ``settings``, each metric's mean and std over seeds, the costs."""
        return sweep_rows(self.settings, self.runs, self.chosen_by, self.metrics)

    @property
    def shares_task(self) -> bool:
        """Whether all combinations have the same task, and so the same baselines."""
        return not any(key.split(".")[0] == "task" for key in self.grid)

    @property
    def baselines(self) -> list[dict[str, Any]]:
        """Rows of the same form for what answering without a model scores; none if the grid changes the task."""
        names = list(dict.fromkeys((self.chosen_by, *self.metrics)))
        return sweep_baseline_rows(self.runs, names) if self.shares_task else []

    @property
    def verdict(self) -> str:
        """What was chosen, how sure that is, and whether validation parts were set aside for it."""
        rows = self.rows
        words = sweep_verdict(rows, self.chosen_by, self.metrics)
        if rows[0]["mark"] == "best":
            best = self.runs[rows[0]["label"]]
            against, warns = baseline_sentence({rows[0]["label"]: best}, best[0].score)
            words = " ".join(part for part in ((against, words) if warns else (words, against)) if part)
        if self.set_aside is None:
            return words
        return (
            f"{words} Clients had no validation parts, so {100 * self.set_aside:g} % of each one's samples were set "
            "aside for the choice and not trained on."
        )

    @property
    def best(self) -> Settings:
        """The settings of the best combination."""
        return dict(best_row(self.rows)["settings"])

    def plot(self, path: str | Path | None = None) -> Any:
        """The metric that decides over the grid as a matplotlib figure, also saved to ``path`` if given.

        Args:
            path: The file; its ending names the format.
        """
        figure = sweep_figure(self.grid, self.rows, self.chosen_by)
        if path is not None:
            save_figure(figure, path)
        return figure

    def __repr__(self) -> str:
        return f"<Sweep over {', '.join(self.grid)}: {len(self.settings)} combinations. {self}>"

    def __str__(self) -> str:
        return self.verdict


@documents_settings(RunConfig, without=("task", "method"))
def sweep(
    task: Task | str | TaskOf,
    method: Method = "fedavg",
    *,
    grid: Mapping[str, Iterable[Any]],
    seeds: int = 1,
    metrics: Sequence[str] = DEFAULT_METRICS,
    out: str | Path | None = None,
    **settings: Any,
) -> Sweep:
    """Run every combination of a grid with the same seeds, choose on validation data, and report test data.

    Where clients have no validation parts, a share of their samples is set aside for the choice.

    Args:
        task: A task, the name of a task, or a function from a seed to a task.
        method: A method's spec, a method, or its class.
        grid: The values to try for each config key, for instance
            ``{"method.mu": [0.01, 0.1], "local.lr": [0.05, 0.1]}``.
        seeds: How many seeds each combination is run with; the first is ``seed`` (default 0).
        metrics: Short names (``fedloom.runs.plans.sweep.METRICS``) or full names, reported on test
            data; what the first one is on validation data decides the order.
        out: A folder for the sweep. The same call continues a stopped sweep, and so does ``fedloom resume`` if the task
            and the method have names.
        **settings: Any other key of a run's config, as for ``fl.run``.
    """
    source, checked = TaskSource.of(task), check_grid(grid)
    values = {**settings, "task": source.section}
    algorithm = None if isinstance(method, str) else method_from(method)
    if algorithm is not None:
        values["method"] = without_none(method_section(algorithm))
    else:
        values = with_method(values, str(method))
    task_of = source.of_seed
    if any(key.split(".")[0] == "task" for key in checked):
        if not source.is_named:
            raise FedloomError("a grid over the task's settings needs a named task, but this one is a Python object.")
        task_of = None
    plan = make_plan(values, checked, seeds, metrics, task_of, algorithm)
    if source.is_named and "set_aside" in plan:
        task_of = None  # the plan's config builds the task, with validation parts
    folder = None if out is None else path_from("out", out)
    if folder is not None:
        write_plan(folder, PLAN, plan, source.is_named)
    swept = run_sweep(folder, plan, lambda *_: (), _factory(plan, task_of), algorithm)
    warn_if_stopped(history for runs in swept.runs.values() for history in runs)
    return swept


def make_plan(
    values: Mapping[str, Any],
    grid: Grid,
    seeds: int,
    metrics: Sequence[str],
    task_of: TaskOf | None = None,
    method: Algorithm | None = None,
) -> dict[str, Any]:
    """Check every combination and return the plan of the sweep, with validation parts to choose by."""
    plan: dict[str, Any] = {"grid": grid, "seeds": whole_number("seeds", seeds), "config": dict(values)}
    plan |= _set_aside(plan, task_of, method)
    if "set_aside" in plan or any(key.split(".")[0] == "task" for key in grid):
        plan["config"] = {key: value for key, value in plan["config"].items() if key != "made_by"}  # other data
    runs, scores = _factory(plan, task_of), list[str]()
    for member in members(plan, method):
        prepared = runs.prepare(member, first_seed(plan))
        task = prepared.composition.task
        names = [task.score_name, task.objective.score, *(metric.name for metric in task.metrics)]
        scores += [name for name in names if name not in scores]
        if prepared.config.eval_every == 0:
            raise FedloomError("eval_every=0 measures nothing, but a sweep needs scores: leave it out.")
        task.federation.with_validation_as_test()  # refuses a federation without validation parts
    names = [full_name(metric, scores) for metric in metrics]
    if not names:
        raise FedloomError("a sweep needs a metric: name one of " + ", ".join(METRICS) + ".")
    chosen_by = {"metrics": list(dict.fromkeys(names)), "chosen_by": validation_name(names[0], scores[0])}
    return {**plan, **chosen_by, "config": plan["config"]}


def _set_aside(plan: Mapping[str, Any], task_of: TaskOf | None, method: Algorithm | None) -> dict[str, Any]:
    """What a plan needs where clients have no validation parts: the share that is set aside, and a config with it."""
    if "task.valid_share" in plan["grid"]:
        return {}
    prepared = RunFactory(task_of).prepare(members(plan, method)[0], first_seed(plan))
    task, settings = prepared.composition.task, prepared.config.task
    if task.federation.valid.sizes.any():
        return {}
    if not task.made_from:
        return {"set_aside": VALID_SHARE}
    share = float(settings.test_share or VALID_SHARE)
    config = {**plan["config"], "task": {**plan["config"].get("task", {}), "valid_share": share}}
    return {"set_aside": share, "config": config}


def _factory(plan: Mapping[str, Any], task_of: TaskOf | None) -> RunFactory:
    """Prepares the runs of a plan. Tasks that are Python objects without validation parts get them here."""
    if task_of is None or "set_aside" not in plan:
        return RunFactory(task_of)

    def with_validation_part(task: Task) -> Task:
        return replace(task, federation=task.federation.with_validation_part(plan["set_aside"]))

    return RunFactory(task_of, task_view=with_validation_part)


def validation_name(metric: str, score: str) -> str:
    """The metric on clients' validation parts that stands for one on test data.

    For the shared model on the global test set it is the mean over clients weighted by their samples, and for what
    clients trained or received it is what they predict with.

    Args:
        metric: The full name of a metric.
        score: The name of the task's score.
    """
    _, part, measure, *over = metric.split("/")
    if part == "global_test":
        return f"client_model/own_validation/{measure}/weighted"
    aggregate = "mean" if over == ["per_selected"] else over[0]
    return f"client_model/own_validation/{score if measure == 'withheld_recall' else measure}/{aggregate}"


def full_name(metric: str, scores: Sequence[str]) -> str:
    """The full name of a metric; ``scores`` are the names that the task measures, its score first."""
    if metric in METRICS:
        return METRICS[metric].format(score=scores[0])
    known = "|".join(re.escape(name) for name in scores)
    own = f"(client|received|trained)_model/own_test/({known}|loss|withheld_recall)/({AGGREGATES})"
    own += f"|client_model/own_validation/({known}|loss)/({AGGREGATES})"
    if not re.fullmatch(f"global_model/global_test/({known}|loss)|{own}", metric):
        raise unknown("metric", metric, METRICS)
    return metric


def run_sweep(
    folder: Path | None,
    plan: Mapping[str, Any],
    observers_of: ObserversOf,
    runs: RunFactory,
    method: Algorithm | None = None,
) -> Sweep:
    """Run the unfinished runs of a sweep."""
    results = run_members(folder, members(plan, method), seeds_of(plan), observers_of, runs)
    settings = {combination_label(chosen): chosen for chosen in combinations(plan["grid"])}
    return Sweep(
        dict(plan["grid"]), settings, results, tuple(plan["metrics"]), plan["chosen_by"], plan.get("set_aside"), folder
    )


def members(plan: Mapping[str, Any], method: Algorithm | None = None) -> list[Member]:
    """One member per combination; ``method`` is the method if it is a Python object, whose settings they change."""
    found = []
    for number, chosen in enumerate(combinations(plan["grid"]), 1):
        values = with_settings(plan["config"], chosen)
        changed = None
        if method is not None and "method" not in plan["grid"]:
            settings = {**hyperparameters(method), **{k: v for k, v in values["method"].items() if k != "name"}}
            changed = validate(type(method), settings, f"method {type(method).__name__}")
        name = combination_label(chosen)
        found.append(Member(name, f"{number:03d}-{folder_name(name)[:80]}", values, changed))
    return found
