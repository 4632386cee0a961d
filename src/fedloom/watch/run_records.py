"""The records of a run as columns that grow: rounds, bytes, the drawn metrics, who took part and who was left out.

What a folder holds may come from anywhere, so a value of the wrong kind is left out instead of believed.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from fedloom.deploy.protocol.printable import printable_line
from fedloom.rounds.record_keys import DRAWN
from fedloom.runs.folder.metrics_file import METRICS, TIMINGS
from fedloom.runs.folder.record_tail import RecordTail
from fedloom.watch.status import NO_ANSWER, LeftOut, Remark

DIGITS = 6
"""Significant digits of a drawn value."""
LARGEST = 1 << 62
"""No count of a run is larger."""
MEDIAN_OF = 100
"""The length of a round is the median of this many last ones."""


class RunRecords:
    """Everything that a run's records say, kept up to date by reading what is new.

    Args:
        folder: The run's folder.
        drawn: The names of the metrics that are kept for every round; of the others only the latest value is.
    """

    def __init__(self, folder: Path, drawn: Sequence[str]) -> None:
        self.tail, self.timings, self.drawn = RecordTail(folder / METRICS), RecordTail(folder / TIMINGS), drawn
        self.seconds: dict[int, float] = {}
        self._forget()

    def _forget(self) -> None:
        self.rounds: list[int] = []
        self.up: list[int] = []
        self.down: list[int] = []
        self.selected: list[int] = []
        self.metrics: dict[str, list[float | None]] = {name: [] for name in self.drawn}
        self.latest: dict[str, float] = {}
        self.left_out: list[LeftOut] = []
        self.left_out_counts: Counter[tuple[str, str]] = Counter()
        self.remarks: list[Remark] = []
        self.clipped: Counter[str] = Counter()
        self.last_round_of: dict[int, int] = {}
        self.rounds_of: Counter[int] = Counter()
        self.late_rounds: Counter[int] = Counter()
        self.stopped = ""

    def read(self) -> None:
        """Read what is new; if the run went back to an earlier round, read everything again."""
        before, records = self.tail.rewritten, self.tail.new()
        if self.tail.rewritten != before:
            self._forget()
        for record in records:
            self._take(record)
        for timing in self.timings.new():  # a repeated round has a newer line
            number, seconds = timing.get("round"), timing.get("seconds")
            if isinstance(number, int) and 0 <= number < LARGEST and is_number(seconds):
                self.seconds[number] = float(seconds)

    def _take(self, record: dict[str, Any]) -> None:
        number = record.get("round")
        if isinstance(record.get("stopped"), str):
            self.stopped = printable_line(record["stopped"], 500)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < LARGEST:
            return
        self.rounds.append(number)
        self.up.append(_whole(record.get("bytes_up")))
        self.down.append(_whole(record.get("bytes_down")))
        chosen = [client for client in _list(record.get("selected")) if isinstance(client, int)]
        self.selected.append(round(drawn) if is_number(drawn := record.get(DRAWN)) else len(chosen))
        for client in chosen:
            self.last_round_of[client] = number
        self.rounds_of.update(chosen)
        metrics = record.get("metrics")
        values = {k: float(v) for k, v in metrics.items() if is_number(v)} if isinstance(metrics, dict) else {}
        for name, column in self.metrics.items():
            column.append(float(f"{values[name]:.{DIGITS}g}") if name in values else None)
        self.latest |= values
        before = len(self.left_out)
        self._take_left_out(number, record)
        self._count_late(chosen, self.left_out[before:])
        for one in _list(record.get("remarks")):
            if isinstance(one, dict):
                remark = Remark(number, *_words(one))
                self.remarks.append(remark)
                self.clipped[remark.name] += remark.what == "clipped"

    def _take_left_out(self, number: int, record: dict[str, Any]) -> None:
        failed = {"what": "update", "reason": "its upload failed"}
        lost = [{"name": client, "client": client, **failed} for client in _list(record.get("lost"))]
        for one in (*_list(record.get("excluded")), *lost):
            if isinstance(one, dict):
                name, what, reason = _words(one)
                client = one.get("client")
                found = LeftOut(number, name, what, reason, client if isinstance(client, int) else None)
                self.left_out.append(found)
                self.left_out_counts[name, found.reason_class] += 1

    def _count_late(self, chosen: Iterable[int], left_out: Iterable[LeftOut]) -> None:
        """Count in how many rounds in a row clients did not answer in time; a round that does not ask one is skipped.

        That an older answer came too late is said in a later round, which its client may have answered in time.
        """
        late = {one.client for one in left_out if one.client is not None and one.reason.startswith(NO_ANSWER)}
        for client in {*chosen, *late}:
            self.late_rounds[client] = self.late_rounds[client] + 1 if client in late else 0

    @property
    def round_seconds(self) -> float | None:
        """The median length of the last rounds; None before the first."""
        last = [self.seconds[number] for number in self.rounds[-MEDIAN_OF:] if number in self.seconds]
        return statistics.median(last) if last else None

    def columns(self, first: int, first_left_out: int) -> dict[str, Any]:
        """The columns from a place on, as plain values for a page."""
        rounds = self.rounds[first:]
        return {
            "first": first,
            "round": rounds,
            "up": self.up[first:],
            "down": self.down[first:],
            "selected": self.selected[first:],
            "seconds": [self.seconds.get(number) for number in rounds],
            "metrics": {name: column[first:] for name, column in self.metrics.items()},
            "left_out": [[one.round, one.name, one.what, one.reason] for one in self.left_out[first_left_out:]],
        }


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a file is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _words(one: dict[str, Any]) -> tuple[str, str, str]:
    """Who, of what, and why."""
    name, what, reason = (printable_line(str(one.get(key, "")), 300) for key in ("name", "what", "reason"))
    return name, what, reason


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < LARGEST else 0


def _list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
