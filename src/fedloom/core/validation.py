"""Plain values in, checked objects out; what is wrong is said in one sentence with the key's path."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedloom.core.errors import FedloomError, unknown


def validated(kind: Any, values: Any, where: str) -> Any:
    """An object of a type from plain values, or one sentence that names the first thing wrong."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(step) for step in first["loc"])
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            section = _section(kind, first["loc"][:-1])
            raise unknown(f"key in {where}:", path, [*section]) from None
        got = repr(first.get("input"))[:60]
        raise FedloomError(f"{path}={got} in {where}: {first['msg'][0].lower()}{first['msg'][1:]}.") from None


def _section(kind: Any, loc: tuple[Any, ...]) -> Iterable[str]:
    prefix = "".join(f"{step}." for step in loc)
    for step in loc:
        kind = kind.model_fields[step].annotation if hasattr(kind, "model_fields") else kind
        kind = next((a for a in getattr(kind, "__args__", ()) if a is not type(None)), kind)
    names = list(kind.model_fields) if hasattr(kind, "model_fields") else [f.name for f in fields(kind)]
    return [prefix + name for name in names]


def plain(text: str) -> Any:
    """A value as TOML reads it, or the text itself."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def read(path: str | Path) -> dict[str, Any]:
    """The values of a TOML file."""
    path = Path(path)
    if not path.is_file():
        raise FedloomError(f"there is no configuration file {path}: name an existing TOML file.")
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedloomError(f"{path} is not valid TOML: {error}.") from None
