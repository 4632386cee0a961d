"""What a user's code raised, as words: the kind of the exception, its message, and the line of the user's file."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

MOST = 200
"""Characters of a message that are shown."""
_FOLDERS = (Path(__file__).parents[1], *(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")))
"""Folders whose code is not the user's: this library, Python's, and what is installed."""


def describe_error(error: BaseException) -> str:
    """An exception as ``KeyError: 'logits' (net.py, line 12)``; the place is the last line of the user's own code.

    Args:
        error: The exception.
    """
    first = (str(error).strip().splitlines() or [""])[0][:MOST]
    kind = type(error).__name__
    shown = f"{kind}: {first}" if first else kind
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if not frame.filename.startswith("<") and not any(file.is_relative_to(folder) for folder in _FOLDERS):
            return f"{shown} ({file.name}, line {frame.lineno})"
    return shown
