"""Sweeps with made-up scores, for the tests of their tables, figures and pages."""

from __future__ import annotations

from typing import Any

from fedloom.runs.plans.grid import combination_label, combinations
from fedloom.runs.plans.sweep import Sweep
from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import CLIENTS

VALIDATION = CLIENTS.replace("own_test", "own_validation")


def _history(value: float, stopped: str | None = None) -> History:
    records = [
        {"round": n, "selected": [0], "metrics": {CLIENTS: v, VALIDATION: v}, "steps": 5 * n}
        | {"bytes_up": 10**6 * n, "bytes_down": 0, "bytes_between": 3 * 10**6 * n}
        for n, v in enumerate((0.1, value))
    ]
    return History({"method": {"name": "m"}, "task": {"name": "t"}}, records, stopped=stopped)


def finished_sweep(
    grid: dict[str, list[Any]], scores: list[list[float]], metrics: tuple[str, ...] = (CLIENTS,)
) -> Sweep:
    """A sweep whose combinations ended with these scores, one per seed."""
    chosen = combinations(grid)
    runs = {
        combination_label(c): [_history(value) for value in values] for c, values in zip(chosen, scores, strict=True)
    }
    return Sweep(grid, {combination_label(c): c for c in chosen}, runs, metrics, VALIDATION)
