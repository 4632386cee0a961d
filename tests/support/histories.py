"""Histories with numbers made up, for tests of figures and reports."""

from __future__ import annotations

from typing import Any

from fedloom.runs.results.history import History
from fedloom.runs.results.summaries import CLIENTS, GLOBAL


def history(values: list[float], clients: int = 4, own: float = 0.5, **more: Any) -> History:
    records = [
        {
            "round": number,
            "selected": [number % clients] if number else [],
            "bytes_up": 1_000_000 * bool(number),
            "bytes_down": 2_000_000 * bool(number),
            "steps": 7 * bool(number),
            "metrics": {GLOBAL: value, CLIENTS: value / 2, CLIENTS.replace("mean", "std"): 0.1}
            | ({f"{w}_model/own_test/accuracy/mean": value for w in ("received", "trained")} if number else {}),
        }
        for number, value in enumerate(values)
    ]
    rows = [
        {"client": c, "name": str(c), "train": 10 + c, "test": 5, "group": ("small", "big")[c % 2], "accuracy": own}
        for c in range(clients)
    ]
    counts = [[3 + c, 0, 5] for c in range(clients)]
    return History({"method": {"name": "m"}}, records, rows, {"counts": counts}, **more)


def measured_run(
    clients: list[float], glob: list[float] | None = None, stopped: str | None = None, **config: Any
) -> History:
    """A run whose rounds 0, 1, … measured these accuracies; each sent 3 MB up, 2 down, 1.5 between, took 10 steps."""
    records = []
    for number, value in enumerate(clients):
        metrics = {CLIENTS: value, CLIENTS.replace("mean", "std"): 0.1, CLIENTS.replace("mean", "worst_decile"): 0.2}
        if glob is not None:
            metrics[GLOBAL] = glob[number]
        work = {"bytes_up": 3_000_000, "bytes_down": 2_000_000, "bytes_between": 1_500_000, "steps": 10}
        if number == 0:
            work = dict.fromkeys(work, 0)
        records.append({"round": number, "selected": [], "metrics": metrics, **work})
    return History({"method": {"name": "m"}, "seed": 0, **config}, records, stopped=stopped)


def two_rounds(values: dict[str, float], selected: list[int], **config: Any) -> History:
    """Two rounds that measured the same, with these clients selected, of four."""
    records = [
        {"round": n, "selected": selected if n else [], "metrics": values, "bytes_up": 0, "bytes_down": 0, "steps": 0}
        for n in range(3)
    ]
    return History({"method": {"name": "m"}, "seed": 0, "task": {"clients": 4}, **config}, records)
