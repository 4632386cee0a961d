"""Atomic writes: a file is either complete or absent, even if the process is killed."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that it is either complete or absent, even if the process is killed."""
    aside = path.with_name(path.name + ".part")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
