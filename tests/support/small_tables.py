"""A small table of three hospitals' patients, for tests that read a file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.config.resolve import resolve
from fedloom.config.schema import RunConfig

FEATURES = ("age", "bmi", "pulse")
HOSPITALS = ("north", "east", "south")


def patients(count: int = 60) -> tuple[np.ndarray, list[str]]:
    """Features on very different scales, and what became of each patient."""
    x = np.random.default_rng(1).normal([50, 25, 70], [15, 4, 9], size=(count, 3)).astype(np.float32)
    return x, ["sick" if age + pulse > 122 else "well" for age, _, pulse in x]


def write_rows(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    """A CSV (or TSV, by its ending)."""
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([header, *rows])
    return path


def write_patients(path: Path) -> Path:
    """The table with labels and hospitals."""
    x, outcome = patients()
    rows = [[*map(float, row), outcome[i], HOSPITALS[i % 3]] for i, row in enumerate(x)]
    return write_rows(path, [*FEATURES, "outcome", "hospital"], rows)


def config_of(path: Path, method: str = "fedrep", **task: Any) -> RunConfig:
    """The config of a short run on the table."""
    values = {"name": "own", "path": str(path), "target": "outcome", "client_column": "hospital", **task}
    local = {"lr": 0.1, "batch_size": 8}
    return resolve({"task": values, "method": {"name": method}, "rounds": 2, "eval_every": 0, "local": local})
