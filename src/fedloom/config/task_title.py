"""What people call the data of a run: the name of a named data set, and of a user's own the file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from fedloom.tasks.settings import DEFAULT_TASK

UNNAMED = "own data"


def task_title(config: Mapping[str, Any]) -> str:
    """The data of a run as titles name them: ``digits``, or ``stays.csv`` for a file.

    Args:
        config: The config of a run or a plan, as its file has it; one that names no task has the usual one.
    """
    task = config.get("task", {})
    if not isinstance(task, Mapping):
        return str(task)
    name = str(task.get("name", DEFAULT_TASK))
    path = task.get("path")
    if isinstance(path, str) and path:
        return PurePath(path).name or name
    return UNNAMED if name == "own" else name
