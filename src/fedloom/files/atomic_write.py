"""Atomic writes: a file is either complete or absent, even if the process is killed."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that it is either complete or absent, even if the process is killed."""
    _write(path, content, None)


def write_private(path: Path, content: bytes) -> None:
    """The same for a file that only its owner can ever read."""
    _write(path, content, 0o600)


def _write(path: Path, content: bytes, mode: int | None) -> None:
    aside = path.with_name(path.name + ".part")
    try:
        with open(aside, "wb", opener=None if mode is None else partial(os.open, mode=mode)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)  # one that a kill left may be open to others
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError:  # no room, or the path is a folder's
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
