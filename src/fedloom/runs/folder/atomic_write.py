"""Atomic writes: a file is either complete or absent, even if the process is killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that it is either complete or absent, even if the process is killed."""
    aside = path.with_name(path.name + ".part")
    try:
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError:  # no room, or the path is a folder's
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
