"""The files of a run's folder: written whole or not at all, and appended line by line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whenever the process ends."""
    aside = path.with_name(path.name + ".part")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def append_json(folder: Path | None, name: str, value: Any) -> None:
    """Append a value as a line of JSON to a file in a folder; nothing happens if there is no folder."""
    if folder is not None:
        with open(folder / name, "ab") as file:
            file.write(compact_json(value) + b"\n")


def compact_json(value: Any) -> bytes:
    """A value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
