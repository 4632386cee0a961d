"""``metrics.jsonl`` and ``timings.jsonl`` of a run's folder: one line of JSON per round.

``metrics.jsonl`` holds measurements but no times, so that a run that was killed and resumed leaves the same bytes as
one that was not. Seconds go to ``timings.jsonl``. Without a folder nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedloom.runs.atomic_write import write_atomic

METRICS, TIMINGS = "metrics.jsonl", "timings.jsonl"
FINISHED = ("clients.json", "confusion.json")
"""What a run writes at its end; with the first of them it counts as finished."""


def append_record(folder: Path | None, record: dict[str, Any], seconds: float) -> None:
    """Append the record of a round, and how long it took."""
    _append(folder, METRICS, record)
    _append(folder, TIMINGS, {"round": record["round"], "seconds": round(seconds, 6)})


def append_stop(folder: Path | None, reason: str) -> None:
    """Append why a run ended before its last round."""
    _append(folder, METRICS, {"stopped": reason})


def rewrite_records(folder: Path, records: Sequence[dict[str, Any]]) -> None:
    """Replace all records: a resumed run drops those after its checkpoint."""
    write_atomic(folder / METRICS, b"".join(compact_json(record) + b"\n" for record in records))


def compact_json(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _append(folder: Path | None, name: str, value: Any) -> None:
    if folder is not None:
        with open(folder / name, "ab") as file:
            file.write(compact_json(value) + b"\n")
