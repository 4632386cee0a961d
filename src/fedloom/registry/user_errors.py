"""What a user's code raised, as words: the kind of the exception, its message, and the line of the user's file."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

MOST = 200
"""Characters of a message that are shown."""
_FOLDERS = (Path(__file__).parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")))
"""Folders whose code is not the user's: this library, Python's, and what is installed."""


class WorkerError(RuntimeError):
    """What was raised in a worker process: the traceback there.

    Args:
        traceback: The text of the traceback.
        described: The exception in words if a user's code raised it (``describe_user_error``).
    """

    def __init__(self, traceback: str, described: str | None) -> None:
        super().__init__(f"in a worker process:\n{traceback}")
        self.described = described


def describe_error(error: BaseException) -> str:
    """An exception as ``KeyError: 'logits' (net.py, line 12)``; the place is the last line of the user's own code."""
    first = (str(error).strip().splitlines() or [""])[0][:MOST]
    kind = type(error).__name__
    shown = f"{kind}: {first}" if first else kind
    return shown + (f" ({place})" if (place := _users_line(error)) else "")


def describe_user_error(error: BaseException) -> str | None:
    """The same for an exception that went through a user's own code; None for any other, which is our mistake."""
    if isinstance(error, WorkerError):
        return error.described
    return describe_error(error) if _users_line(error) else None


def _users_line(error: BaseException) -> str:
    """The last line of the user's own code that an exception went through; nothing if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if not frame.filename.startswith("<") and not any(file.is_relative_to(folder) for folder in _FOLDERS):
            return f"{file.name}, line {frame.lineno}"
    return ""
