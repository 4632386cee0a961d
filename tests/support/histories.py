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
