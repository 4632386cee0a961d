"""The cells of an audit: each probe with each setting and seed is played once, and its result is a file.

A cell's numbers depend on the run, the defence, the seed and the number of rounds, and on nothing else: so it does not
matter when an audit was stopped. How long a cell took is kept beside them, and may differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fedloom.audits.of_run.probes.probe import Measure, ProbeOutcome, Sample
from fedloom.files.atomic_write import write_private
from fedloom.files.json_text import parse_json
from fedloom.runs.plans.members import folder_name

Status = Literal["measured", "refused", "broke"]
CELLS = "cells"


@dataclass(frozen=True)
class Cell:
    """A probe with a setting and a seed.

    Args:
        rounds: How many rounds are played.
    """

    probe: str
    setting: str
    seed: int
    rounds: int

    @property
    def file(self) -> str:
        """The name of its file."""
        digest = hashlib.blake2b(self.setting.encode(), digest_size=4).hexdigest()
        return f"{folder_name(self.probe)}-{digest}-seed{self.seed}-rounds{self.rounds}.json"


@dataclass(frozen=True)
class CellResult:
    """What came of a cell.

    Args:
        status: Whether it was measured, or refused by the run, or raised something else.
        reason: Why, if it was not measured.
        outcome: What was found.
        seconds: How long it took.
    """

    status: Status
    reason: str = ""
    outcome: ProbeOutcome | None = None
    seconds: float = 0.0


def write_cell(folder: Path, cell: Cell, result: CellResult) -> None:
    """Keep a result.

    Args:
        folder: The audit's folder.
    """
    (folder / CELLS).mkdir(mode=0o700, exist_ok=True)
    content = {**asdict(cell), **asdict(result)}
    write_private(folder / CELLS / cell.file, json.dumps(content, allow_nan=False).encode())


def read_cell(folder: Path, cell: Cell) -> CellResult | None:
    """A kept result; None if there is none, or not a whole one.

    Args:
        folder: The audit's folder.
    """
    try:
        found = parse_json((folder / CELLS / cell.file).read_text())
        if {key: found[key] for key in asdict(cell)} != asdict(cell):
            return None
        made = None if found["outcome"] is None else _outcome(found["outcome"])
        return CellResult(found["status"], found["reason"], made, found["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _outcome(found: Mapping[str, Any]) -> ProbeOutcome:
    measures = {name: Measure(**one) for name, one in found["measures"].items()}
    low, high = found["samples_range"]
    return ProbeOutcome(measures, tuple(Sample(**one) for one in found["samples"]), (low, high), found["note"])
