"""What one open page is sent: the status when it changes, the new rounds, and the ends of the logs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fedloom.watch.status import Status
from fedloom.watch.status_reader import StatusReader

LOGS_EVERY = 2.0
"""Seconds between two looks at the logs."""


class LiveEvents:
    """The events of one page; each page has its own, since each began at its own time.

    Args:
        reader: The reading that all pages share.
    """

    def __init__(self, reader: StatusReader) -> None:
        self.reader = reader
        self._status, self._logs, self._logs_at = "", "", float("-inf")
        self._generation, self._rounds, self._left_out = "", 0, 0

    def new(self) -> Iterator[tuple[str, str]]:
        """The events since the last call: their names, and their data as JSON in one line."""
        with self.reader.lock:  # a status and the rounds that it speaks of
            status = self.reader.read()
            rounds = self._new_rounds()
        text = to_json(page_status(status, time.time()))
        if text != self._status:
            self._status = text
            yield "status", f'{{"now":{time.time():.1f},"status":{text}}}'
        if rounds is not None:
            yield "rounds", to_json(rounds)
        if time.monotonic() - self._logs_at > LOGS_EVERY:
            self._logs_at, logs = time.monotonic(), to_json(self.reader.logs())
            if logs != self._logs:
                self._logs = logs
                yield "logs", logs

    def _new_rounds(self) -> dict[str, Any] | None:
        """The rounds that this page does not have; all of them after the run went back to an earlier one."""
        records, generation = self.reader.records, self.reader.generation
        if generation != self._generation:
            self._generation, self._rounds, self._left_out = generation, 0, 0
        elif len(records.rounds) == self._rounds:
            return None
        first = max(0, self._rounds - 1)  # the last one again: its seconds may have come after it
        found = records.columns(first, self._left_out)
        found["first_left_out"] = self._left_out
        self._rounds, self._left_out = len(records.rounds), len(records.left_out)
        return found


def page_status(status: Status, now: float) -> dict[str, Any]:
    """A status as the page gets it."""
    values = asdict(status)
    for one, row in zip(status.participants, values["participants"], strict=True):
        row["always_late"] = one.is_always_late
    for name in (
        "left_out",
        "left_out_counts",
        "remarks",
        "metrics",
        "outcome",
        "authority",
        "revoked",
        "in_line",
    ):  # the page has the rounds themselves
        del values[name]
    latest = {curve.name: status.metrics[curve.name] for curve in status.curves if curve.name in status.metrics}
    return {**values, "latest": latest, "trouble": status.trouble(now)}


def to_json(value: Any) -> str:
    """A value as JSON in one line, without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
