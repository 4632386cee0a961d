"""Runs that wait in line for the one before them: ``queue.json`` in the server's folder, in the order of asking.

A server has one SuperLink and one signed plan, and plays one run at a time; ``fedloom deploy run --new`` during a run
waits for its end. The line is on disk, so it is there after a restart. A command that waits holds a lock of its place;
a place without one is an orphan, and the next ``fedloom deploy run`` plays its run too, in its turn.

A run's folder is put aside when the next one begins. The commands that watch it hold a lock until they have shown its
report, and the next one begins after that.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from fedloom.deploy.audit_log import user_name
from fedloom.deploy.participant_folder import FLOWER, make_private, read_json
from fedloom.files.atomic_write import write_private

QUEUE = "queue.json"


@dataclass(frozen=True)
class WaitingRun:
    """A place in line: who asked when, and whether it may take the place of a run that is not at its end.

    Args:
        ticket: Tells it from others.
        at_once: Nothing was running when it was asked for, so an unfinished run is given up for it.
    """

    ticket: str
    who: str
    time: str
    at_once: bool


class RunQueue:
    """The runs in line of a server's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / QUEUE
        self.held: dict[str, BinaryIO] = {}

    def waiting(self) -> list[WaitingRun]:
        """The runs in line, the next one first; none if the file is damaged."""
        try:
            return [WaitingRun(**one) for one in read_json(self.path).get("waiting", [])]
        except TypeError:
            return []

    def has(self, ticket: str) -> bool:
        """Whether a run is still in line."""
        return any(one.ticket == ticket for one in self.waiting())

    def join(self, at_once: bool) -> WaitingRun:
        """Take the last place in line, and hold it while this process lives.

        Args:
            at_once: Whether nothing is running; it counts only if nobody is in line either.
        """
        with self._lock():
            before = self.waiting()
            time = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            one = WaitingRun(secrets.token_hex(8), user_name(), time, at_once and not before)
            self.held[one.ticket] = open(self._place(one.ticket), "wb")  # noqa: SIM115
            fcntl.flock(self.held[one.ticket], fcntl.LOCK_EX)
            self._write([*before, one])
        return one

    def next_for(self, ticket: str) -> WaitingRun | None:
        """The next run in line, if it has a ticket or is an orphan; None if another command will begin it."""
        head = next(iter(self.waiting()), None)
        return head if head is not None and (head.ticket == ticket or self._is_orphan(head.ticket)) else None

    def leave(self, ticket: str) -> None:
        """Give up a place in line, or leave it since its run begins."""
        with self._lock():
            self._write([one for one in self.waiting() if one.ticket != ticket])
            self._place(ticket).unlink(missing_ok=True)
            if ticket in self.held:
                self.held.pop(ticket).close()

    def _is_orphan(self, ticket: str) -> bool:
        """Whether no living command holds a place."""
        try:
            with open(self._place(ticket), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except BlockingIOError:
            return False
        return True

    def _place(self, ticket: str) -> Path:
        return make_private(self.folder / FLOWER) / f"line-{ticket}"

    def _write(self, waiting: list[WaitingRun]) -> None:
        if waiting:
            write_private(self.path, json.dumps({"waiting": [asdict(one) for one in waiting]}).encode())
        else:
            self.path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with open(make_private(self.folder / FLOWER) / "queue.lock", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class RunWatch:
    """Keeps the folder of a run where it is while somebody watches it."""

    def __init__(self, folder: Path) -> None:
        self.file: BinaryIO = open(make_private(folder / FLOWER) / "watching", "wb")  # noqa: SIM115

    def watch(self) -> None:
        """Let nobody put the run's folder aside, until this is closed or the process ends."""
        fcntl.flock(self.file, fcntl.LOCK_SH)

    def take(self) -> bool:
        """Whether nobody watches the run; then nobody can, and its folder may be put aside."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let others put the run's folder aside."""
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self) -> None:
        """The same, for good."""
        self.file.close()
