"""Optimisers and schedules of a user's own, in the sections ``local`` and ``server_optimizer``.

They are loaded while the config is made, so code that may not run here is refused before anything else happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedloom.core.local_work import OPTIMIZERS
from fedloom.core.schedules import RoundSchedule
from fedloom.registry.user_classes import resolve_user_file, user_class_name
from fedloom.registry.user_schedules import load_schedule
from fedloom.training.optimizers.user_optimizer import optimizer_class

TRAINING_CODE = ("optimizer", "schedule")
"""The keys of these sections that may name code."""


def with_named_code(section: Any) -> Any:
    """A section whose optimiser and schedule are names that are found from any folder, and whose code is loaded.

    Args:
        section: Plain values, in which a class and a function may stand for their names, or an object.
    """
    given = section if isinstance(section, Mapping) else _attributes(section)
    named = {key: _name(key, given[key]) for key in TRAINING_CODE if given.get(key) is not None}
    for key, name in named.items():
        if isinstance(name, str) and ":" in name:
            _load(key, name)
    if isinstance(section, Mapping):
        return {**section, **named}
    changed = {key: name for key, name in named.items() if name != given[key]}
    return replace(section, **changed) if changed else section


def _attributes(section: Any) -> dict[str, Any]:
    """What names code in local work or a server optimiser; nothing for anything else."""
    return {key: getattr(section, key, None) for key in TRAINING_CODE} if isinstance(section, RoundSchedule) else {}


def _name(key: str, value: Any) -> Any:
    if callable(value):
        return user_class_name(value)
    if not isinstance(value, str):
        return value
    name = value.lower() if key == "optimizer" and value.lower() in OPTIMIZERS else value
    return resolve_user_file(name)


def _load(key: str, name: str) -> None:
    if key == "schedule":
        load_schedule(name)
        return
    optimizer_class(name)
