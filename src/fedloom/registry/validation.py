"""Checked objects from plain values; an error is one sentence that names the key's path."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.settings import check_values
from fedloom.files.limits import DEEPEST, SETTINGS, check_depth, read_limited
from fedloom.registry.packages import load_object
from fedloom.registry.setting import base_type, range_words

UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""What pydantic calls a key that there is not."""
DEEP_KEY = re.compile(rf"(?<![^\s.=\[\]{{}},#])(?:[^\s.=\[\]{{}},#]++\s*+\.\s*+){{{DEEPEST}}}")
"""A key with very many dots. It is looked for from the beginnings of words only: so that takes time by the length."""
RANGES = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
MEMBERS = ("str", "int", "float", "bool", "callable", "none", "nullable")
"""What pydantic calls the members of a union."""
TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a table",
    "mapping": "a table",
    "dataclass": "a table",
    "model": "a table",
    "callable": "a function",
}
"""What a value must be, by the beginning of pydantic's name for the error."""


def validate(kind: Any, values: Any, where: str) -> Any:
    """Build an object of a type from plain values, or raise one sentence about the first error.

    Args:
        kind: A pydantic model, a dataclass or any other type that pydantic can build.
        where: What an error calls the values, for instance the path of their file; empty for arguments of a call.
    """
    check_values(kind, values, where)
    try:
        return _adapter(kind).validate_python(values)
    except ValidationError as error:
        raise FedloomError(_sentence(kind, error.errors(), where)) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """What builds objects of a type: made once, since it takes longer than all that it builds in a run."""
    return TypeAdapter(kind)


def _sentence(kind: Any, errors: list[Any], where: str) -> str:
    """The first error as a sentence; a key that there is not comes first, since it may be the missing one, misspelt."""
    first = min(errors, key=lambda one: one["type"] not in UNKNOWN)
    loc, place = _field(first["loc"]), f" in {where}" if where else ""
    path = ".".join(map(str, loc))
    if first["type"] in UNKNOWN:
        what = f"key{place}:" if where else "setting"
        return str(unknown(what, path, _keys(kind, loc[:-1])))
    if first["type"] in ("missing", "missing_argument"):
        return f"{path} is missing{place}: add it."
    got = " ".join(repr(first.get("input")).split())[:60]  # the text of a module has several lines
    what = f"{path}={got}{place}" if path else f"{where}={got}"
    return f"{what}: {_words(kind, loc, [one for one in errors if _field(one['loc']) == loc])}."


def _words(kind: Any, loc: tuple[Any, ...], errors: list[Any]) -> str:
    """What a value must be: its range, or one of the types that it may have."""
    first = errors[0]
    if first["type"] in RANGES:
        return f"it must be {range_words(_declared(kind, loc)) or _only_limit(first)}"
    if first["type"] == "literal_error":
        return f"it must be {first['ctx']['expected']}"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"]).rstrip(".")
    words = list(dict.fromkeys(filter(None, (_type_words(one["type"]) for one in errors))))
    if not words:
        return f"{first['msg'][0].lower()}{first['msg'][1:]}"
    return f"it must be {', '.join(words[:-1])} or {words[-1]}" if words[1:] else f"it must be {words[0]}"


def _type_words(error: str) -> str | None:
    """What a value of another type must be."""
    return next((words for start, words in TYPES.items() if error.startswith(start)), None)


def _only_limit(error: Mapping[str, Any]) -> str:
    """The limit that a value breaks, where its declaration is not found."""
    ((name, limit),) = error["ctx"].items()
    return f"{ {'ge': 'at least', 'gt': 'above', 'le': 'at most', 'lt': 'less than'}[name] } {limit}"


def _field(loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """The place of an error without the member of a union that pydantic adds to it."""
    return loc[:-1] if loc and isinstance(loc[-1], str) and (loc[-1] in MEMBERS or "[" in loc[-1]) else loc


def _inner(kind: Any, step: Any) -> Any:
    """The annotation of a field of a class; Any where there is none."""
    if hasattr(kind, "model_fields"):
        return kind.model_fields[step].annotation if step in kind.model_fields else Any
    return get_type_hints(kind, include_extras=True).get(step, Any) if is_dataclass(kind) else Any


def _section(kind: Any, step: Any) -> Any:
    """The class of a section of a class: of a table of settings, or of any other field."""
    metadata = getattr(_inner(kind, step), "__metadata__", ())
    table = next((one.table for one in metadata if getattr(one, "table", None)), None)
    return load_object(table) if table is not None else base_type(_inner(kind, step))


def _declared(kind: Any, loc: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is declared of the field at a place, besides its type."""
    for step in loc[:-1]:
        kind = _section(kind, step)
    if hasattr(kind, "model_fields") and loc[-1] in kind.model_fields:
        return tuple(kind.model_fields[loc[-1]].metadata)
    return getattr(_inner(kind, loc[-1]), "__metadata__", ())


def _keys(kind: Any, loc: tuple[Any, ...]) -> Iterable[str]:
    """The keys of the section at a place inside a type."""
    prefix = "".join(f"{step}." for step in loc)
    for step in loc:
        kind = _section(kind, step)
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
        text = read_limited(path, SETTINGS).decode()
        if DEEP_KEY.search(text):  # reading it takes a time that grows with the square of its length
            raise RecursionError
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedloomError(f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise FedloomError(f"{path} is nested too deeply: correct it.") from None
    check_depth(values, path)
    return values
