"""What the script of a report gets: every run's curves by metric and axis, and a table of clients, as plain values.

Which runs a line is the mean of, readers choose on the page: a line per method, per setting in which runs differ, or
per run. ``curves.js`` takes the means, and the difference of two lines; it has Student's quantiles from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedloom.config.task_title import task_title
from fedloom.plotting.curves import UNITS
from fedloom.plotting.style import DASHES, PALETTE
from fedloom.registry.nested_keys import flatten
from fedloom.reports.page import script_json
from fedloom.reports.summary_table import differences
from fedloom.rounds.score import Score, scores_of
from fedloom.runs.results.history import History
from fedloom.runs.results.significance import LEAST_SEEDS, student_quantile
from fedloom.runs.results.summaries import (
    AXES,
    Histories,
    baseline_lines,
    common_score,
    is_finite,
    progress,
    values_by_round,
)

MOST_CLIENTS = 2000
"""Clients of a seed in the table, at most."""
MOST_ROWS = 6000
"""Clients of all seeds in the table, at most."""
NAMES = {"round": "round", "megabytes": "megabytes", "steps": "local steps", "seconds": "seconds"}
"""The axes in a word or two."""
DIGITS = 6
"""Significant digits of the numbers on a page."""
MOST_STYLES = 24
"""Lines that look different from each other."""


def explore_json(histories: Histories) -> str:
    """The data of the script, safe inside a ``script`` element: no ``<`` can end it."""
    return script_json(explore_data(histories))


def explore_data(histories: Histories) -> dict[str, Any]:
    """The data of the script as plain values."""
    score = common_score(histories)
    runs = [run for several in histories.values() for run in several]
    metrics = [
        {
            "title": title,
            "share": share,
            "unit": unit,
            "references": [
                {"name": name, "value": _number(value)} for name, value in baseline_lines(histories, metric)
            ],
            "lines": lines,
        }
        for metric, (title, unit, share) in metric_titles(histories).items()
        if any(lines := [_line(run, metric) for run in runs])
    ]
    return {
        "task": task_title(runs[0].config),
        "methods": [
            {"name": name, "colour": PALETTE[place % len(PALETTE)], "dash": _dash(place), "seeds": len(several)}
            for place, (name, several) in enumerate(histories.items())
        ],
        "styles": [{"colour": PALETTE[n % len(PALETTE)], "dash": _dash(n)} for n in range(MOST_STYLES)],
        **_runs(histories),
        "metrics": metrics,
        "axes": [
            {"name": NAMES[axis], "title": UNITS[axis], "whole": axis == "round", "places": places}
            for axis in AXES
            if any(places := [_places(run, axis) for run in runs])
        ],
        "quantiles": [None, *(student_quantile(count) for count in range(2, len(runs) + 2))],
        "least": LEAST_SEEDS,
        "score": {"title": score.title, "share": score.is_share, "higher": score.higher_is_better},
        "classes": _class_names(histories),
        "seeds": _seeds(histories, score),
    }


def _runs(histories: Histories) -> dict[str, Any]:
    """The runs one by one: method, seed and the settings in which they differ, and what to tell them apart by."""
    settings = [key for key in differences(histories) if " " not in key and not key.startswith("made_by.")]
    rows = []
    for place, (name, runs) in enumerate(histories.items()):
        for run in runs:
            config = dict(flatten(run.config))
            values = [plain_text(config.get(key)) for key in settings]
            rows.append(
                {
                    "method": place,
                    "columns": [name, str(run.config.get("seed", "")), *values],
                    "folder": run.folder.name if run.folder else "",
                    "final": run.final_round,
                    "stopped": run.stopped or "",
                }
            )
    return {"columns": ["method", "seed", *settings], "runs": rows}


def plain_text(value: Any) -> str:
    """A setting's value as a table of runs has it: ``0.1``, ``on``, ``quantize:bits=8``, or a dash for none."""
    if isinstance(value, list | tuple):
        return "+".join(map(plain_text, value)) or "–"
    if isinstance(value, Mapping):
        settings = ",".join(f"{key}={plain_text(one)}" for key, one in value.items() if key != "name")
        return f"{value.get('name', '')}:{settings}".strip(":")
    return "–" if value is None else {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _line(run: History, metric: str) -> dict[str, list[Any]] | None:
    """A run's finite values of a metric and their rounds; None where it measured none."""
    found = values_by_round(run, metric)
    return {"rounds": list(found), "values": _numbers(list(found.values()))} if found else None


def metric_titles(histories: Histories) -> dict[str, tuple[str, str, bool]]:
    """The metrics that a page can show: title, unit and whether values are shares, by the name in the records."""
    score = common_score(histories)
    runs = [run for several in histories.values() for run in several]
    others = list({one.name: one for run in runs for one in scores_of(run.config)[1:]}.values())
    return score_titles((score, *others))


def score_titles(scores: Sequence[Score]) -> dict[str, tuple[str, str, bool]]:
    """The same of the runs of some scores: the run's first, then its other metrics."""
    titles: dict[str, tuple[str, str, bool]] = {}
    for one in scores:
        head = one.heading
        titles |= {
            one.clients: (f"{head}, clients' models on their own test sets", one.axis, one.is_share),
            one.shared: (f"{head}, shared model on the global test set", one.axis, one.is_share),
            one.over_clients("pooled"): (f"{head}, all clients' test samples together", one.axis, one.is_share),
            one.over_clients("worst_decile"): (f"{head}, worst-off tenth of the clients", one.axis, one.is_share),
            f"client_model/own_validation/{one.name}/mean": (
                f"{head}, clients' models on their own validation sets",
                one.axis,
                one.is_share,
            ),
        }
    return titles | {
        "client_model/own_test/loss/mean": ("Loss, clients' models on their own test sets", "loss", False),
        "global_model/global_test/loss": ("Loss, shared model on the global test set", "loss", False),
        "client_model/own_validation/loss/mean": ("Loss, clients' models on their own validation sets", "loss", False),
    }


def _numbers(values: Sequence[float]) -> list[float]:
    return [_number(value) for value in values]


def _number(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _dash(place: int) -> list[float]:
    style = DASHES[place // len(PALETTE) % len(DASHES)]
    return [] if isinstance(style, str) else [3 * length for length in style[1]]


def _places(run: History, axis: str) -> dict[int, float]:
    """Where each round of a run lies on an axis; empty if it was not recorded."""
    return {number: _number(place) for number, place in progress(run, axis).items()}


def _class_names(histories: Histories) -> list[str]:
    tables = (run.partition for runs in histories.values() for run in runs)
    return next((list(map(str, names)) for names in (table.get("class_names") for table in tables) if names), [])


def _seeds(histories: Histories, score: Score) -> list[dict[str, Any]]:
    """The table of clients of each seed: data sizes, and for every method the client's values and rounds."""
    seeds = list(dict.fromkeys(str(run.config.get("seed", "")) for runs in histories.values() for run in runs))
    tables: list[dict[str, Any]] = []
    left = MOST_ROWS
    for seed in seeds:
        runs = [next((r for r in several if str(r.config.get("seed", "")) == seed), None) for several in histories.values()]  # fmt: skip # noqa: E501
        rows = _client_rows(runs, score)
        if rows:
            tables.append({"seed": seed, "all": len(rows), "rows": rows[: max(0, min(MOST_CLIENTS, left))]})
            left -= len(tables[-1]["rows"])
    return [table for table in tables if table["rows"]]


def _client_rows(runs: Sequence[History | None], score: Score) -> list[dict[str, Any]]:
    by_method = [{row["client"]: row for row in run.clients} if run else {} for run in runs]
    chosen = [_rounds_of_clients(run) if run else {} for run in runs]
    counts: list[list[int]] = next((r.partition["counts"] for r in runs if r and r.partition.get("counts")), [])
    rows = []
    for client in sorted({client for table in by_method for client in table}):
        known = next(table[client] for table in by_method if client in table)
        rows.append(
            {
                "name": str(known.get("name", client)),
                "train": known.get("train"),
                "test": known.get("test"),
                "group": known.get("group"),
                "values": [_value(table.get(client), score.name) for table in by_method],
                "losses": [_value(table.get(client), "loss") for table in by_method],
                "rounds": [rounds.get(client, []) for rounds in chosen],
                "counts": counts[client] if isinstance(client, int) and client < len(counts) else None,
            }
        )
    return rows


def _rounds_of_clients(run: History) -> dict[int, list[int]]:
    rounds: dict[int, list[int]] = {}
    for record in run.records:
        for client in record.get("selected", ()):
            rounds.setdefault(int(client), []).append(record["round"])
    return rounds


def _value(row: Mapping[str, Any] | None, key: str) -> float | None:
    value = row.get(key) if row else None
    return _number(value) if value is not None and is_finite(value) else None
