"""``metrics.jsonl`` and ``timings.jsonl`` of a run's folder: one line of JSON per round.

``metrics.jsonl`` holds measurements but no times, so that a run that was killed and resumed leaves the same bytes as
one that was not. Seconds go to ``timings.jsonl``, with the digest of the round's record beside them, so that a record
that no checkpoint vouches for yet can be checked as well. Without a folder nothing is written.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedloom.runs.folder.manifest import NOTHING, digest_of, extend_chain

METRICS, TIMINGS = "metrics.jsonl", "timings.jsonl"
FINISHED = ("clients.json", "confusion.json", "baselines.json")
"""What a run writes at its end; with the first of them it counts as finished."""


def append_record(folder: Path | None, record: dict[str, Any], seconds: float | None) -> None:
    """Append the record of a round, and how long it took; None where that would tell who was drawn."""
    _append(folder, METRICS, record)
    took = {} if seconds is None else {"seconds": seconds}
    timing = {"round": record["round"], **took, "record": digest_of(compact_json(record))}
    _append(folder, TIMINGS, timing | {"digest": digest_of(compact_json(timing))})


def append_stop(folder: Path | None, reason: str, *, can_continue: bool = False) -> None:
    """Append why a run ended before its last round, and whether it can continue."""
    _append(folder, METRICS, {"stopped": reason, **({"can_continue": True} if can_continue else {})})


def count_records(folder: Path, since: tuple[int, int, str] = (0, 0, NOTHING)) -> tuple[int, int, str]:
    """How many records a folder has, how many bytes they are, and their digest.

    Args:
        folder: The run's folder.
        since: The same three of an earlier time, so that only what came later is read.
    """
    count, length, chain = since
    path = folder / METRICS
    if not path.exists():
        return since
    with open(path, "rb") as file:
        file.seek(length)
        for line in file.read().splitlines():
            count, length, chain = count + 1, length + len(line) + 1, extend_chain(chain, line)
    return count, length, chain


def last_recorded_round(folder: Path) -> int:
    """The last round of which a folder has a record, whether or not a checkpoint vouches for it; 0 for none.

    Args:
        folder: The run's folder.
    """
    last, path = 0, folder / METRICS
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError):  # a kill leaves half a line
            record = json.loads(line)
            number = record.get("round") if isinstance(record, dict) else None
            last = max(last, number if isinstance(number, int) else 0)
    return last


def compact_json(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _append(folder: Path | None, name: str, value: Any) -> None:
    if folder is not None:
        with open(folder / name, "ab") as file:
            file.write(compact_json(value) + b"\n")
