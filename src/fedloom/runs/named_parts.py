"""Selectors and prediction stages by name: ``{"name": "random", "fraction": 0.1}`` and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.names import NO_ALIASES, canonical_name
from fedloom.core.prediction_stage import PredictionStage
from fedloom.core.user_classes import user_class, user_class_name
from fedloom.core.validation import validate
from fedloom.prediction.registry import STAGE_ALIASES, STAGES
from fedloom.selection.registry import SELECTOR_ALIASES, SELECTORS


def make_selector(value: Any) -> Any:
    """A selector from its name, from ``{"name": ..., settings}``, or from itself; ``random`` if it has no name."""
    return make_part(value, SELECTORS, object, "selection", "random", SELECTOR_ALIASES)


def make_stage(value: Any) -> PredictionStage:
    """A prediction stage from its name, from ``{"name": ..., settings}``, or from itself."""
    stage: PredictionStage = make_part(value, STAGES, PredictionStage, "prediction stage", aliases=STAGE_ALIASES)
    return stage


def make_part(
    value: Any,
    known: Mapping[str, Any],
    base: type,
    what: str,
    default: str | None = None,
    aliases: Mapping[str, str] = NO_ALIASES,
) -> Any:
    """A part of a run from its name, from ``{"name": ..., settings}``, from its class, or from itself.

    Args:
        value: The part, its class, its name, or its name with settings.
        known: The classes of this kind by name.
        base: The base class of user-defined parts.
        what: The kind of part, as error messages call it.
        default: The name if the value has only settings.
        aliases: Other spellings of names.
    """
    if not isinstance(value, (str, Mapping)):
        part = value() if isinstance(value, type) and issubclass(value, base) else value
        if not isinstance(part, base):
            raise FedloomError(
                f"{value!r} is not a {what}: give one of {', '.join(known)}, or an object of a subclass of "
                f"{base.__name__}."
            )
        return part
    settings = {"name": value} if isinstance(value, str) else dict(value)
    name = settings.pop("name", default)
    if not isinstance(name, str):
        raise FedloomError(f"a {what} needs a name: one of {', '.join(known)}.")
    if ":" in name:
        kind: type = user_class(name, base, what)
        _check_settings(kind, settings, what)
        return validate(kind, settings, f"{what} {name}")
    registered = canonical_name(name, known, aliases)
    if registered not in known:
        raise unknown(what, name, known)
    return validate(known[registered], settings, f"{what} {registered}")


def _check_settings(kind: type, settings: Mapping[str, Any], what: str) -> None:
    """Refuse settings that are not fields of a user-defined class."""
    if not is_dataclass(kind):
        raise FedloomError(f"{what} '{kind.__name__}': write @dataclass above the class; its fields are its settings.")
    names = [item.name for item in fields(kind)]
    strange = [key for key in settings if key not in names]
    if strange:
        raise unknown(f"key in {what} {kind.__name__}:", strange[0], names)


def part_values(part: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The ``{"name": ..., settings}`` that rebuild a selector or a stage."""
    kind = type(part)
    name = next((name for name, known_kind in known.items() if known_kind is kind), user_class_name(kind))
    return {"name": name, **without_none(hyperparameters(part))}


def hyperparameters(part: Any) -> dict[str, Any]:
    """The constructor arguments of a method, a selector, a stage or local work, as plain values."""
    return asdict(part) if is_dataclass(part) and not isinstance(part, type) else {}


def without_none(value: Any) -> Any:
    """The values without keys that are None: TOML has no null, and a missing key means the same."""
    if isinstance(value, Mapping):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return value
