"""The config of a run's folder: to use its models, or to continue the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedloom.config.python_objects import refuse_missing
from fedloom.config.resolve import change_settings, resolve
from fedloom.config.schema import RunConfig
from fedloom.config.trusted_code import NO_CODE, TrustedCode
from fedloom.core.algorithm import Algorithm
from fedloom.core.task import Task
from fedloom.registry.code_consent import code_places, refuse_changed_code
from fedloom.runs.folder.old_folders import read_run_values, refuse_other_version

TRAINING_PARTS = ("selection", "aggregation", "channel")
"""Parts of a run that its models do not need to predict."""


def load_config(
    folder: Path,
    *,
    task: Task | None = None,
    method: Algorithm | None = None,
    trusted: TrustedCode = NO_CODE,
) -> RunConfig:
    """The config of a run's folder, to use its models; folders of older versions are translated.

    What only training needs, and is somebody's own code, is left out.
    """
    values = trusted.put_into(read_run_values(folder))
    refuse_missing(folder, values, task is not None, method is not None, "fl.History.load(folder).model(")
    values = {key: value for key, value in values.items() if key not in TRAINING_PARTS or not code_places(value)}
    section = values.get("task", {})
    if isinstance(section.get("metrics"), list):
        values["task"] = {**section, "metrics": [one for one in section["metrics"] if not code_places(one)]}
    return resolve(values, str(folder / "config.toml"), task=task)


def load_config_to_resume(
    folder: Path,
    *,
    task: Task | None = None,
    method: Algorithm | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> RunConfig:
    """The config of a run's folder, to continue the run; that of another minor version is refused.

    Args:
        folder: The run's folder.
        task: The run's task, if it is a Python object.
        method: The run's method, if it is a Python object.
        settings: Settings that change, by their dotted keys.
    """
    values = change_settings(read_run_values(folder), settings)
    refuse_other_version(folder, values)
    refuse_missing(folder, values, task is not None, method is not None, "fl.resume(folder, ")
    refuse_changed_code(values, folder)
    return resolve(values, str(folder / "config.toml"), task=task)
