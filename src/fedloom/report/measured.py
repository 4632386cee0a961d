"""Numbers out of histories: what was measured, as arrays that figures and tables share.

Several runs of one method differ in their seed only, so a method's value is a mean over its runs and the
spread is the sample standard deviation over them. A value that is not finite (a diverged run) was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedloom.runs.history import BYTES, CLIENTS, History, mean_and_std, sent

Histories = Mapping[str, Sequence[History]]
Floats = NDArray[np.float64]

CLIENTS_STD = CLIENTS.removesuffix("mean") + "std"
GROUPS = ("small", "intermediate", "big")
AXES = ("round", "megabytes", "steps")


@dataclass(frozen=True)
class Curve:
    """A metric along an axis: the mean over seeds, and the spread over them (None for a single seed)."""

    x: Floats
    mean: Floats
    std: Floats | None


def finite(value: Any) -> bool:
    """Whether a value is a measured number."""
    return isinstance(value, int | float) and math.isfinite(value)


def points(history: History, metric: str) -> dict[int, float]:
    """The measured values of a metric by round."""
    return {r: float(v) for r, v in zip(*history.series(metric), strict=True) if finite(v)}


def last(history: History, metric: str) -> float | None:
    """The newest measured value of a metric."""
    return next(reversed(points(history, metric).values()), None)


def progress(history: History, axis: str) -> dict[int, float]:
    """Where each round lies on an axis: its number, or all megabytes sent or local steps up to its end."""
    done = 0.0
    places = {}
    for record in history.records:
        if axis == "megabytes":
            done += sent(record) / 1e6
        elif axis == "steps":
            done += record["steps"]
        else:
            done = record["round"]
        places[record["round"]] = done
    return places


def traffic(runs: Sequence[History]) -> dict[str, float]:
    """Megabytes over the whole run, mean over seeds: up, down, between clients, and sent, which is all three."""
    ways = (*BYTES, "bytes_sent")
    return {f"mega{way}": sum(run.total(way) for run in runs) / 1e6 / len(runs) for way in ways}


def curve(runs: Sequence[History], metric: str, axis: str = "round") -> Curve | None:
    """A method's curve over the rounds that all its runs measured, or None if there is no such round."""
    measured = [(points(run, metric), progress(run, axis)) for run in runs]
    measured = [(values, places) for values, places in measured if values]
    rounds = sorted(set.intersection(*(set(values) for values, _ in measured))) if measured else []
    if not rounds:
        return None
    values = np.array([[values[r] for r in rounds] for values, _ in measured])
    places = np.array([[places[r] for r in rounds] for _, places in measured])
    std = values.std(axis=0, ddof=1) if len(values) > 1 else None
    return Curve(places.mean(axis=0), values.mean(axis=0), std)


def over_seeds(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of what was measured; the deviation of a single value is unknown: None."""
    known = [value for value in values if value is not None]
    if not known:
        return None, None
    mean, std = mean_and_std(known)
    return mean, (std if len(known) > 1 else None)


def client_accuracies(runs: Sequence[History], group: str | None = None) -> Floats:
    """Final accuracies of single clients (of one size group), the clients of all seeds together."""
    rows = [row for run in runs for row in run.clients if group is None or row.get("group") == group]
    return np.array([row["accuracy"] for row in rows if finite(row.get("accuracy"))], dtype=np.float64)


def client_count(history: History) -> int:
    """How many clients a run has, as far as its files say."""
    task = history.config.get("task", {})
    declared = task.get("clients") if isinstance(task, dict) else None
    chosen = max((int(c) for r in history.records for c in r.get("selected", ())), default=-1) + 1
    known = declared if isinstance(declared, int) else 0
    return max(known, chosen, len(history.clients), len(history.partition.get("counts", ())))
