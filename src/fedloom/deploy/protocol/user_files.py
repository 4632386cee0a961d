"""User-defined classes in a run file (``my_file.py:MyMethod``): their files are copied into each participant's folder.

The operator hands the folder over; code is never sent over the network.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.runs.named_parts import PARTS


def class_parts(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a config that name a class: the method, the task's metrics, and those of ``PARTS``."""
    yield plain.get("method", {})
    yield from plain.get("task", {}).get("metrics", [])
    for kind in PARTS:
        yield from plain.get(kind.key, []) if kind.is_list else [plain.get(kind.key, {})]


def _file_of(part: dict[str, Any]) -> Path | None:
    where = str(part.get("name", "")).rpartition(":")[0]
    return Path(where) if where.endswith(".py") else None


def with_relative_files(plain: dict[str, Any]) -> dict[str, Any]:
    """The config with the file names as they are inside a participant's folder."""
    plain = copy.deepcopy(plain)
    for part in class_parts(plain):
        file = _file_of(part)
        if file is not None:
            part["name"] = f"{file.name}:{part['name'].rpartition(':')[2]}"
    return plain


def copy_user_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Copy the files of user-defined classes into a folder; the config that names them there."""
    files = {file for part in class_parts(plain) if (file := _file_of(part)) is not None}
    if len({file.name for file in files}) < len(files):
        raise FedloomError(f"two files are called {sorted(file.name for file in files)[0]}: give each its own name.")
    for file in files:
        shutil.copyfile(file, folder / file.name)
    return with_relative_files(plain)


def with_absolute_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config of a folder with absolute file names."""
    plain = copy.deepcopy(plain)
    for part in class_parts(plain):
        file = _file_of(part)
        if file is not None and not file.is_absolute():
            part["name"] = f"{(folder / file).resolve()}:{part['name'].rpartition(':')[2]}"
    return plain
