"""Summaries of histories: last values, means over seeds, curves, traffic and numbers of clients.

The runs of one method differ only in their seed. A method's value is the mean over its runs, and the spread is the
sample standard deviation over them. A value that is not finite (a diverged run) counts as not measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedloom.core.errors import FedloomError, unknown
from fedloom.plotting.curves import CurvePanel, MethodCurve
from fedloom.rounds.score import ACCURACY, Score, score_of, scores_of

if TYPE_CHECKING:
    from fedloom.runs.results.history import History

Histories = Mapping[str, Sequence["History"]]
"""The runs of each method, one per seed, by the method's name."""
Floats = NDArray[np.float64]

CLIENTS, GLOBAL = ACCURACY.clients, ACCURACY.shared
BYTES = ("bytes_down", "bytes_up", "bytes_between")
"""The bytes of a round: from the server, to the server, and between clients."""
GROUPS = ("small", "intermediate", "big")
AXES = ("round", "megabytes", "steps", "seconds")


@dataclass(frozen=True)
class MetricCurve:
    """A metric along an axis: the mean over seeds, and the spread over them (None for a single seed)."""

    x: Floats
    mean: Floats
    std: Floats | None


def is_finite(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for a single value)."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5


def over_seeds(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the measured values; the deviation of a single value is unknown (None)."""
    known = [value for value in values if value is not None]
    if not known:
        return None, None
    mean, std = mean_and_std(known)
    return mean, (std if len(known) > 1 else None)


def bytes_sent(record: Mapping[str, Any]) -> int:
    """All bytes of a round: up, down and between clients."""
    return sum(record.get(way, 0) for way in BYTES)


def values_by_round(history: History, metric: str) -> dict[int, float]:
    """The finite values of a metric by round."""
    return {r: float(v) for r, v in zip(*history.series(metric), strict=True) if is_finite(v)}


def last_value(history: History, metric: str) -> float | None:
    """The last finite value of a metric; with early stopping, of the round that the run ended with."""
    final, found = history.final_round, values_by_round(history, metric)
    return next((found[number] for number in reversed(found) if number <= final), None)


def values_by_seed(runs: Sequence[History], metric: str, rank: Callable[[float], float]) -> dict[Hashable, float]:
    """The last value of a metric in each run of a method, by the run's seed, to be paired with another method's.

    Args:
        metric: The full name of the metric.
        rank: Makes a number of a value that is higher the better the value is.
    """
    seen: Counter[Any] = Counter()
    values: dict[Hashable, float] = {}
    for run in runs:
        seed, value = run.config.get("seed", 0), last_value(run, metric)
        if value is not None:
            values[seed, seen[seed]] = rank(value)
        seen[seed] += 1
    return values


def progress(history: History, axis: str) -> dict[int, float]:
    """The position of each round on an axis: its number, or the megabytes, local steps or seconds up to its end.

    Empty if the seconds of some round were not recorded.
    """
    if axis == "seconds" and any(record["round"] not in history.seconds for record in history.records):
        return {}
    total = 0.0
    places = {}
    for record in history.records:
        if axis == "megabytes":
            total += bytes_sent(record) / 1e6
        elif axis == "steps":
            total += record["steps"]
        elif axis == "seconds":
            total += history.seconds[record["round"]]
        else:
            total = record["round"]
        places[record["round"]] = total
    return places


def traffic(runs: Sequence[History]) -> dict[str, float]:
    """Megabytes over the whole run, mean over seeds: up, down, between clients, and sent (the sum of all three)."""
    ways = (*BYTES, "bytes_sent")
    return {f"mega{way}": sum(run.total(way) for run in runs) / 1e6 / len(runs) for way in ways}


def curve(runs: Sequence[History], metric: str, axis: str = "round") -> MetricCurve | None:
    """A method's curve over the rounds in which all its runs measured the metric, or None if there are none."""
    measured = [(values_by_round(run, metric), progress(run, axis)) for run in runs]
    measured = [(values, places) for values, places in measured if values and places]
    rounds = sorted(set.intersection(*(set(values) for values, _ in measured))) if measured else []
    if not rounds:
        return None
    values = np.array([[values[r] for r in rounds] for values, _ in measured])
    places = np.array([[places[r] for r in rounds] for _, places in measured])
    std = values.std(axis=0, ddof=1) if len(values) > 1 else None
    return MetricCurve(places.mean(axis=0), values.mean(axis=0), std)


def common_score(histories: Histories) -> Score:
    """The score of some runs, which is that of the first."""
    return next((score_of(run.config) for runs in histories.values() for run in runs), ACCURACY)


def score_panels(axis: str, histories: Histories) -> list[CurvePanel]:
    """The score by ``round``, ``megabytes``, ``steps`` or ``seconds``: panels of the global and of the clients' models.

    The band is the standard deviation over seeds, or over clients if there is only one run.
    """
    if axis not in AXES:
        raise unknown("axis", axis, AXES)
    alone = sum(len(runs) for runs in histories.values()) == 1
    panels, score = [], common_score(histories)
    for metric, title in (
        (score.shared, "Global model on the global test set"),
        (score.clients, "Clients' models on their own test sets (mean)"),
    ):
        over_clients = alone and metric == score.clients
        spread = score.over_clients("std") if over_clients else None
        curves = [
            _method_curve(name, place, runs, metric, axis, spread)
            for place, (name, runs) in enumerate(histories.items())
        ]
        known = tuple(line for line in curves if line is not None)
        if known:
            note = _band_note(histories, alone, over_clients)
            references = baseline_lines(histories, metric)
            panels.append(CurvePanel(title, note, axis, known, score.axis, score.is_share, references))
    if not panels:
        what = "Seconds were" if axis == "seconds" else f"{score.heading} was"
        raise FedloomError(f"{what} not recorded in these runs.")
    return panels


def metric_panel(history: History, metric: str) -> CurvePanel:
    """The curve of one metric of one run, by round.

    Args:
        metric: The full name of the metric.
    """
    rounds, values = history.series(metric)
    if not rounds:
        raise FedloomError(f"{metric} was not recorded in this run.")
    measure = (metric.split("/")[2:3] or [metric])[0]  # MODEL/DATA/MEASURE and perhaps /OVER
    known = next((one for one in scores_of(history.config) or [history.score] if one.name == measure), None)
    unit, share = (measure, False) if known is None else (known.axis, known.is_share)
    x, y = np.array(rounds, dtype=np.float64), np.array(values, dtype=np.float64)
    line = MethodCurve(history.label, 0, x, y, stopped=history.stopped is not None)
    note = "one seed; ×: stopped" if history.stopped else "one seed"
    references = baseline_lines({history.label: [history]}, metric)
    return CurvePanel(metric, note, "round", (line,), unit, share, references)


def runs_with_baselines(histories: Histories) -> list[History]:
    """The first run of each seed that measured the baselines: all runs of a seed share the task.

    Args:
        histories: The runs of each method, one per seed.
    """
    by_seed: dict[Any, History] = {}
    for run in (run for runs in histories.values() for run in runs if run.baselines):
        by_seed.setdefault(run.config.get("seed", 0), run)
    return list(by_seed.values())


def baseline_lines(histories: Histories, metric: str) -> tuple[tuple[str, float], ...]:
    """The baselines of some runs that have a metric, each with its mean over seeds.

    Args:
        histories: The runs of each method, one per seed.
        metric: The full name of the metric.
    """
    found: dict[str, list[float]] = {}
    for run in runs_with_baselines(histories):
        for one in run.baselines:
            if metric in one["metrics"]:
                found.setdefault(str(one["name"]), []).append(float(one["metrics"][metric]))
    return tuple((name, sum(values) / len(values)) for name, values in found.items())


def _method_curve(
    name: str, place: int, runs: Sequence[History], metric: str, axis: str, spread_metric: str | None
) -> MethodCurve | None:
    line = curve(runs, metric, axis)
    if line is None:
        return None
    spread = None if spread_metric is None else curve(runs, spread_metric, axis)
    band = spread.mean if spread and len(spread.mean) == len(line.x) else line.std
    stopped = any(run.stopped for run in runs)
    return MethodCurve(name, place, line.x, line.mean, band, faint=spread is not None, stopped=stopped)


def _band_note(histories: Histories, alone: bool, over_clients: bool) -> str:
    seeds = {len(runs) for runs in histories.values()}
    cross = "; ×: stopped" if any(run.stopped for runs in histories.values() for run in runs) else ""
    if max(seeds) > 1:
        count = f"{max(seeds)} seeds" if len(seeds) == 1 else f"up to {max(seeds)} seeds"
        return f"mean of {count}; band: ± 1 std over seeds{cross}"
    if over_clients:
        return f"one seed; band: ± 1 std over clients{cross}"
    return f"one seed{'' if alone else ' per method'}, so no spread over seeds{cross}"


def client_scores(runs: Sequence[History], group: str | None = None) -> Floats:
    """The final score of every client (of one size group), for all seeds together."""
    rows = [(row, run.score.name) for run in runs for row in run.clients if group is None or row.get("group") == group]
    return np.array([row[name] for row, name in rows if is_finite(row.get(name))], dtype=np.float64)


def client_count(history: History) -> int:
    """How many clients a run has, as far as its files say."""
    task = history.config.get("task", {})
    declared = task.get("clients") if isinstance(task, dict) else None
    chosen = max((int(c) for r in history.records for c in r.get("selected", ())), default=-1) + 1
    known = declared if isinstance(declared, int) else 0
    return max(known, chosen, len(history.clients), len(history.partition.get("counts", ())))


def stop_reason(runs: Sequence[History]) -> str | None:
    """Why some of these runs ended early, or None if none did."""
    reasons = [run.stopped for run in runs if run.stopped]
    if not reasons:
        return None
    which = f"{len(reasons)} of {len(runs)} seeds: " if len(runs) > 1 else ""
    return which + " / ".join(dict.fromkeys(reasons))


def join_names(names: Sequence[str]) -> str:
    """Names as a list in a sentence: ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
