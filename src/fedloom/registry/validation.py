"""Checked objects from plain values; an error is one sentence that names the key's path."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.settings import check_values

UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic calls a key that there is not."""


def validate(kind: Any, values: Any, where: str) -> Any:
    """Build an object of a type from plain values, or raise one sentence about the first error.

    Args:
        kind: A pydantic model, a dataclass or any other type that pydantic can build.
        values: The plain values.
        where: What an error calls the values, for instance the path of their file.
    """
    check_values(kind, values, where)
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = min(error.errors(), key=lambda one: one["type"] not in UNKNOWN)  # it may be the missing one, misspelt
        path = ".".join(str(step) for step in first["loc"])
        if first["type"] in UNKNOWN:
            raise unknown(f"key in {where}:", path, _keys(kind, first["loc"][:-1])) from None
        if first["type"] in ("missing", "missing_argument"):
            raise FedloomError(f"{path} is missing in {where}: add it.") from None
        got = " ".join(repr(first.get("input")).split())[:60]  # the text of a module has several lines
        what = f"{path}={got} in {where}" if path else f"{where}={got}"
        raise FedloomError(f"{what}: {first['msg'][0].lower()}{first['msg'][1:]}.") from None


def _keys(kind: Any, loc: tuple[Any, ...]) -> Iterable[str]:
    """The keys of the section at a place inside a type."""
    prefix = "".join(f"{step}." for step in loc)
    for step in loc:
        kind = kind.model_fields[step].annotation if hasattr(kind, "model_fields") else kind
        kind = next((a for a in getattr(kind, "__args__", ()) if a is not type(None)), kind)
    names = list(kind.model_fields) if hasattr(kind, "model_fields") else [f.name for f in fields(kind)]
    return [prefix + name for name in names]


def toml_value(text: str) -> Any:
    """A text as TOML reads it, or the text itself if it is not a TOML value; True and False may be Python's."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def read_toml(path: str | Path) -> dict[str, Any]:
    """The values of a TOML file."""
    path = Path(path)
    if not path.is_file():
        raise FedloomError(f"there is no configuration file {path}: name an existing TOML file.")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedloomError(f"{path} is not valid TOML: {error}.") from None
