"""What people call the data of a run: the name of a named data set, and of a user's own the file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

UNNAMED = "own data"


def task_title(config: Mapping[str, Any], unknown: str = "its task") -> str:
    """The data of a run as titles name them: ``digits``, or ``stays.csv`` for a file.

    Args:
        config: The config of a run, as its file has it.
        unknown: What is said of a config that names no task.
    """
    task = config.get("task", {})
    if not isinstance(task, Mapping):
        return str(task)
    name = str(task.get("name", unknown))
    path = task.get("path")
    if isinstance(path, str) and path:
        return PurePath(path).name or name
    return UNNAMED if name == "own" else name
