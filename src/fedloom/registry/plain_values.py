"""A part as plain values, as a config holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any


def hyperparameters(part: Any) -> dict[str, Any]:
    """The constructor arguments of a method, a selector, a stage or local work, as plain values."""
    return asdict(part) if is_dataclass(part) and not isinstance(part, type) else {}


def without_none(value: Any) -> Any:
    """The values without keys that are None: TOML has no null, and a missing key means the same."""
    if isinstance(value, Mapping):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return value
