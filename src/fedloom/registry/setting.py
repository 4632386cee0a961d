"""A setting, declared once: its type, default, range and one line of help, in the class where it is used.

    valid_share: Annotated[float, Ge(0), Lt(1), Setting("The share of samples that is kept for validation.")] = 0.0

From such a line come the key of the config, the argument of the Python call, the option of the command line (where it
has a ``flag``), the message for a wrong value (``registry/validation.py``) and the reference. Modules that declare
settings import neither torch nor pydantic, because ``fedloom run --help`` reads them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from fedloom.registry.packages import load_object

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


@dataclass(frozen=True)
class Setting:
    """What is declared of a setting besides its type, its range and its default.

    Args:
        help: What it is, in one line; names of commands are between backquotes.
        flag: Its option on the command line, where it has one.
        panel: Under which heading the option is listed.
        usual: What happens without it, where the default does not say so.
        table: The class of a table of settings, ``package.module:Class``.
        read: The function that reads a value before it is checked, or its place.
    """

    help: str
    flag: str | None = None
    panel: str | None = None
    usual: str = ""
    table: str | None = None
    read: Callable[[Any], Any] | str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """How pydantic checks a value: numbers are not read from texts, and a table is an object of its class."""
        from pydantic_core import core_schema

        schema = handler(source)
        if self.table is not None:
            schema = core_schema.nullable_schema(handler.generate_schema(load_object(self.table)))
        elif (number := base_type(source)) in (int, float):
            read_number = _whole_number if number is int else _real_number
            schema = core_schema.no_info_before_validator_function(read_number, schema)
        if self.read is not None:
            read = load_object(self.read) if isinstance(self.read, str) else self.read
            schema = core_schema.no_info_before_validator_function(read, schema)
        return schema


@dataclass(frozen=True)
class DeclaredSetting:
    """A setting as its declaration has it.

    Args:
        text: Its type as it is written.
        range: What its values are, in words: ``at least 0 and less than 1``; empty without limits.
        setting: Its help, and its option.
    """

    name: str
    kind: Any
    text: str
    default: Any
    range: str
    setting: Setting


def declared_settings(owner: type) -> list[DeclaredSetting]:
    """The settings that a class declares, in order."""
    found = []
    for name, hint in get_type_hints(owner, include_extras=True).items():
        metadata = getattr(hint, "__metadata__", ())
        setting = next((one for one in metadata if isinstance(one, Setting)), None)
        if setting is not None:
            kind, default = get_args(hint)[0], _default(owner, name)
            found.append(DeclaredSetting(name, kind, _type_text(owner, name), default, range_words(metadata), setting))
    return found


def range_words(metadata: Iterable[Any]) -> str:
    """The limits among some annotations in words, ``at least 0 and less than 1``; empty if there are none."""
    words = {Ge: "at least", Gt: "above", Le: "at most", Lt: "less than"}
    limits = [(words[type(one)], getattr(one, type(one).__name__.lower())) for one in metadata if type(one) in words]
    return " and ".join(f"{word} {limit:g}" for word, limit in limits)


def _whole_number(value: Any) -> int | None:
    """A whole number as Python's own; a truth value, a text and 2.5 are not read as one."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise ValueError("it must be a whole number")
    return value if value is None else int(value)


def _real_number(value: Any) -> float | None:
    """A number as Python's own; a truth value and a text are not read as one."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
        raise ValueError("it must be a number")
    return value if value is None or isinstance(value, int | float) else float(value)


def path_text(value: Any) -> Any:
    """A path as text."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _default(owner: type, name: str) -> Any:
    if is_dataclass(owner):
        (field,) = (one for one in fields(owner) if one.name == name)
        if field.default is not MISSING:
            return field.default
        return field.default_factory() if field.default_factory is not MISSING else MISSING
    declared = getattr(owner, "model_fields", {}).get(name)
    return getattr(owner, name, MISSING) if declared is None else declared.get_default(call_default_factory=True)


def _type_text(owner: type, name: str) -> str:
    """The type of an attribute as its class writes it, without what else is declared of it."""
    written = next(_own_annotations(base)[name] for base in owner.__mro__ if name in _own_annotations(base))
    if not isinstance(written, str):
        return str(written)
    tree = ast.parse(written, mode="eval").body
    if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Tuple) and ast.unparse(tree.value) == "Annotated":
        tree = tree.slice.elts[0]
    return ast.unparse(tree)


def _own_annotations(owner: type) -> Mapping[str, Any]:
    found: Mapping[str, Any] = vars(owner).get("__annotations__", {})
    return found


def base_type(kind: Any) -> Any:
    """A type without ``None`` and annotations; a union of several stays one."""
    if get_origin(kind) is Annotated:
        return base_type(get_args(kind)[0])
    others = [one for one in get_args(kind) if one is not type(None)]
    return others[0] if type(None) in get_args(kind) and len(others) == 1 else kind
