"""What was made of your own data, once per command: a line on the target, a line per column.

It is said on standard error before anything is trained. With ``--json`` it is in the object that the command prints.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer

NOTES: ContextVar[list[str]] = ContextVar("notes")
"""The lines on the data that the current command has read."""


class FirstNotes(logging.Handler):
    """Keeps, and says, the first notes that reading your own data logs; other seeds read the same data."""

    def __init__(self, is_said: bool) -> None:
        super().__init__(logging.INFO)
        self.is_said = is_said

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the notes, and print them to standard error, where they do not mix with tables."""
        notes = NOTES.get([])
        if not notes:
            notes += record.getMessage().splitlines()
            if self.is_said:
                typer.echo("\n".join(notes), err=True)


@contextmanager
def data_notes(as_json: bool) -> Iterator[None]:
    """Note what is made of the user's data that a command reads, and say it unless the command prints JSON."""
    log = logging.getLogger("fedloom.data")
    handler, level, token = FirstNotes(not as_json), log.level, NOTES.set([])
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


def noted() -> dict[str, list[str]]:
    """The notes for the object that a command prints with ``--json``: the key ``data``, if it has read such data."""
    notes = NOTES.get([])
    return {"data": [note.strip() for note in notes[1:]]} if notes else {}
