"""Names with a path in them: ``local.lr`` in settings, ``server/row`` in files of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from fedloom.core.errors import FedloomError

Value = TypeVar("Value")


def set_nested(values: dict[str, Any], path: str, value: Any, source: str) -> None:
    """Set the value at a dotted path in nested dictionaries.

    Args:
        values: The nested dictionaries; missing sections are added.
        path: The keys on the way, joined by dots.
        source: What an error calls the setting, for instance ``--set local.lr=0.1``.
    """
    *parents, leaf = path.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            raise FedloomError(
                f"{source}: {parent} is a value, not a section; if you mean its name, write {parent}.name."
            )
    values[leaf] = value


def flatten(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The dotted path and the value of every leaf of nested dictionaries."""
    pairs: list[tuple[str, Any]] = []
    for key, value in values.items():
        inside = flatten(value) if isinstance(value, Mapping) else []
        pairs += [(f"{key}.{below}", leaf) for below, leaf in inside] or [(key, value)]
    return pairs


def select_prefix(values: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    """The entries whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
