"""What was made of your own data, once per command: a line on the target, a line per column.

It is printed to standard error when every setting is known to be right, before the training. With ``--json`` it is in
the object that the command prints.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from fedloom.cli.terminal.say import say


@dataclass
class DataNotes:
    """The lines on the data that a command has read, and whether they are still to be said."""

    is_due: bool
    lines: list[str] = field(default_factory=list)


NOTES: ContextVar[DataNotes | None] = ContextVar("notes", default=None)
"""Those of the current command; None for a command that does not take data."""


class FirstNotes(logging.Handler):
    """Keeps the first notes that reading your own data logs; other seeds read the same data."""

    def __init__(self, notes: DataNotes) -> None:
        super().__init__(logging.INFO)
        self.notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the notes, if they are the first."""
        if not self.notes.lines:
            self.notes.lines += record.getMessage().splitlines()


@contextmanager
def collect_notes(as_json: bool) -> Iterator[None]:
    """Collect the sentences about the user's data that a command reads.

    Args:
        as_json: Whether the command prints JSON, so that nothing else is printed.
    """
    log = logging.getLogger("fedloom.data")
    notes = DataNotes(is_due=not as_json)
    handler, level, token = FirstNotes(notes), log.level, NOTES.set(notes)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    propagates, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates
        NOTES.reset(token)


def say_notes() -> None:
    """Print the notes to standard error, where they do not mix with tables; once per command."""
    notes = NOTES.get()
    if notes is not None and notes.is_due and notes.lines:
        notes.is_due = False
        say("\n".join(notes.lines), err=True)


def notes_entry() -> dict[str, list[str]]:
    """The notes for the object that a command prints with ``--json``: the key ``data``, if it has read such data."""
    notes = NOTES.get()
    return {"data": [line.strip() for line in notes.lines[1:]]} if notes is not None and notes.lines else {}
