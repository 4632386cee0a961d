"""User-defined classes in a run file (``my_file.py:MyMethod``): their files are copied into each participant's folder.

The operator hands the folder over; code is never sent over the network.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.runs.named_parts import PARTS


def named_code(plain: dict[str, Any]) -> list[str]:
    """The names in a config that are user code, ``file.py:Class`` or ``package.module:Class``."""
    return [name for place, key in _names(plain) if ":" in (name := str(place[key]))]


def with_relative_files(plain: dict[str, Any]) -> dict[str, Any]:
    """The config with the file names as they are inside a participant's folder."""
    return _with_files(plain, lambda file: file.name)


def user_files(plain: dict[str, Any]) -> list[Path]:
    """The files of user-defined classes in a config, by their names."""
    files = {file for name in named_code(plain) if (file := _file_of(name)) is not None}
    return sorted(files, key=lambda file: file.name)


def copy_user_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Copy the files of user-defined classes into a folder; the config that names them there."""
    files = user_files(plain)
    if len({file.name for file in files}) < len(files):
        raise FedloomError(f"two files are called {files[0].name}: give each its own name.")
    for file in files:
        shutil.copyfile(file, folder / file.name)
    return with_relative_files(plain)


def with_absolute_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config of a folder with absolute file names."""
    return _with_files(plain, lambda file: str(file if file.is_absolute() else (folder / file).resolve()))


def _names(plain: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Where a config names a class or a function: a section or a list, and the key of the name in it."""
    task = plain.get("task", {})
    if "model" in task:
        yield task, "model"
    lists = [task.get("metrics", []), *(plain.get(kind.key, []) for kind in PARTS if kind.is_list)]
    single = [(plain, key) for key in ("method", *(kind.key for kind in PARTS if not kind.is_list)) if key in plain]
    single += [(task, "loss")] if "loss" in task else []
    for place, key in [*single, *((parts, number) for parts in lists for number in range(len(parts)))]:
        if isinstance(place[key], str):
            yield place, key
        elif "name" in place[key]:
            yield place[key], "name"


def _file_of(name: str) -> Path | None:
    where = name.rpartition(":")[0]
    return Path(where) if where.endswith(".py") else None


def _with_files(plain: dict[str, Any], change: Callable[[Path], str]) -> dict[str, Any]:
    """The config with every file of user code under another name."""
    plain = copy.deepcopy(plain)
    for place, key in _names(plain):
        name = str(place[key])
        file = _file_of(name)
        if file is not None:
            place[key] = f"{change(file)}:{name.rpartition(':')[2]}"
    return plain
