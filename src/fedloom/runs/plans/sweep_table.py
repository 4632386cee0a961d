"""The results of a sweep: a row per combination, the best combination, and whether its lead is established.

A combination is chosen by a metric on validation data; the other metrics, on test data, are only reported. Combinations
that paired differences over seeds do not tell apart from the best (``runs/results/significance.py``) are marked as
level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedloom.core.errors import FedloomError
from fedloom.plotting.grid import GridMetric, GridPoint, grid_figure, is_number
from fedloom.rounds.score import is_share, lower_is_better, scores_of
from fedloom.runs.results.baselines import baselines_of_runs
from fedloom.runs.results.history import History
from fedloom.runs.results.significance import LEAST_SEEDS, race
from fedloom.runs.results.summaries import join_names, last_value, over_seeds, stop_reason, traffic, values_by_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SweepRow = dict[str, Any]

MARKS = {"best": "best", "level": "≈ best", "": "", "left out": "left out", "baseline": ""}
"""The values of a row's ``mark``, and how a table shows them."""


def sweep_rows(
    settings: Mapping[str, Mapping[str, Any]],
    runs: Mapping[str, Sequence[History]],
    chosen_by: str,
    metrics: Sequence[str],
) -> list[SweepRow]:
    """A row per combination, the best first.

    A combination that stopped early or was not measured comes last and is never best.

    Args:
        settings: The settings of each combination, by its label.
        runs: The histories of each combination, one per seed, by its label.
        chosen_by: The metric that decides the order.
        metrics: The other metrics of a row.
    """
    names = list(dict.fromkeys((chosen_by, *metrics)))
    known = next((scores_of(run.config) for some in runs.values() for run in some), [])
    sign = 1 if lower_is_better(chosen_by, known) else -1
    rows = [_row(label, chosen, runs[label], names) for label, chosen in settings.items()]
    for row in rows:
        row["lower_is_better"] = {name: lower_is_better(name, known) for name in names}
        row["in_percent"] = {name: is_share(name, known) for name in names}
    rows.sort(key=lambda row: (row["mark"] == "left out", sign * (row["means"][chosen_by] or 0)))
    there = [row for row in rows if row["mark"] != "left out"]
    if there:
        there[0]["mark"] = "best"
    if len(there) > 1:
        values = {r["label"]: values_by_seed(runs[r["label"]], chosen_by, lambda v: -sign * v) for r in there}
        ranked = race(values, LEAST_SEEDS)
        if all(lead.units >= LEAST_SEEDS for lead in ranked.leads):
            there[0]["tested"] = ranked.basis("seeds")
            leads = {lead.rival: lead.row("seeds") for lead in ranked.leads}
            for row in there[1:]:
                row["behind"] = leads.get(row["label"])
                row["mark"] = "" if row["behind"] and row["behind"]["established"] else "level"
    return rows


def _row(label: str, settings: Mapping[str, Any], runs: Sequence[History], metrics: Sequence[str]) -> SweepRow:
    """A combination's row; the first metric decides, ``tested`` says how the best one was held against the rest, and
    ``behind`` has the best one's lead over this one."""
    scores = {metric: over_seeds([last_value(run, metric) for run in runs]) for metric in metrics}
    stopped = stop_reason(runs)
    return {
        "label": label,
        "settings": settings,
        "seeds": len(runs),
        "means": {metric: mean for metric, (mean, _) in scores.items()},
        "stds": {metric: std for metric, (_, std) in scores.items()},
        **traffic(runs),
        "steps": sum(run.total("steps") for run in runs) / len(runs),
        "stopped": stopped,
        "tested": None,
        "behind": None,
        "mark": "left out" if stopped or scores[metrics[0]][0] is None else "",
    }


def sweep_baseline_rows(runs: Mapping[str, Sequence[History]], metrics: Sequence[str]) -> list[SweepRow]:
    """Rows of the same form for the task's baselines, which have no settings.

    Args:
        runs: The histories of combinations that share one task.
        metrics: The metrics of a row.
    """
    rows = [_row(one.label, {}, one.runs, metrics) | {"mark": "baseline"} for one in baselines_of_runs(runs)]
    known = next((scores_of(run.config) for some in runs.values() for run in some), [])
    for row in rows:
        row["lower_is_better"] = {name: lower_is_better(name, known) for name in metrics}
        row["in_percent"] = {name: is_share(name, known) for name in metrics}
    return rows


def best_row(rows: Sequence[SweepRow]) -> SweepRow:
    """The best of the rows that ``sweep_rows`` returned."""
    if rows[0]["mark"] != "best":
        raise FedloomError(
            "No combination of this sweep ran to its end with a measured score; its rows say why each stopped."
        )
    return rows[0]


def setting_cells(grid: Mapping[str, Sequence[Any]], row: SweepRow) -> list[str]:
    """The settings of a row as cells of a table; a baseline has its name in the first.

    Args:
        grid: The values of each key.
        row: The row of a combination or of a baseline.
    """
    if row["mark"] == "baseline":
        return [row["label"], *[""] * (len(grid) - 1)]
    return list(map(str, row["settings"].values()))


def value_text(row: SweepRow, metric: str) -> str:
    """The value of a metric as text, for instance ``87.3 ± 0.6 %``."""
    mean, std = row["means"][metric], row["stds"][metric]
    if mean is None:
        return "not measured"
    scale, unit, form = (100, " %", ".1f") if row["in_percent"][metric] else (1, "", ".4g")
    return f"{scale * mean:{form}}{'' if std is None else f' ± {scale * std:{form}}'}{unit}"


def sweep_verdict(rows: Sequence[SweepRow], chosen_by: str, metrics: Sequence[str]) -> str:
    """Which combination is best by validation data, which ones cannot be told apart from it, its score on test data,
    and whether the grid should be extended."""
    if rows[0]["mark"] != "best":
        return "No combination ran to its end with a measured score."
    first = rows[0]
    words = [f"Best by {chosen_by}: {first['label']} with {value_text(first, chosen_by)}."]
    if metrics[0] != chosen_by:
        words.append(f"Its {metrics[0]} is {value_text(first, metrics[0])}.")
    level = [row["label"] for row in rows[1:] if row["mark"] == "level"]
    there = [row["seeds"] for row in rows if row["mark"] != "left out"]
    if first["tested"] is None and len(there) > 1:
        few = "One seed does" if min(there) == 1 else "Two seeds do" if min(there) == 2 else "These seeds do"
        words.append(f"{few} not establish its lead: use --seeds {LEAST_SEEDS} or more.")
    elif level:
        names = join_names(level) if len(level) < 4 else f"{len(level)} others"
        words.append(f"It cannot be told apart from {names} ({first['tested']}).")
    elif first["tested"]:
        words.append(f"It is better than all others ({first['tested']}).")
    edges = [key for key in first["settings"] if key.startswith(("method", "local")) and _is_at_edge(rows, key)]
    if edges:
        are = "is at the edge of its grid" if len(edges) == 1 else "are at the edges of their grids"
        words.append(f"The best {join_names(edges)} {are}: values beyond may be better.")
    early = sum(row["mark"] == "left out" for row in rows)
    if early:
        words.append(f"Left out because they stopped early or were not measured: {early} of {len(rows)}.")
    return " ".join(words)


def _is_at_edge(rows: Sequence[SweepRow], key: str) -> bool:
    values = [row["settings"][key] for row in rows]
    numbers = {value for value in values if is_number(value)}
    return len(numbers) > 1 and len(numbers) == len(set(map(str, values))) and values[0] in (min(numbers), max(numbers))


def sweep_figure(grid: Mapping[str, Sequence[Any]], rows: Sequence[SweepRow], metric: str) -> Figure:
    """The metric over the grid as a figure, without the combinations that were left out."""
    points = [
        GridPoint(
            label=row["label"],
            settings=row["settings"],
            mean=row["means"][metric],
            std=row["stds"][metric],
            text=value_text(row, metric),
            best=row["mark"] == "best",
        )
        for row in rows
        if row["mark"] != "left out"
    ]
    if not points:
        raise FedloomError("No combination of this sweep ran to its end with a measured score.")
    shown = GridMetric(metric, rows[0]["in_percent"][metric], rows[0]["lower_is_better"][metric])
    return grid_figure(grid, points, shown, rows[0]["seeds"])
