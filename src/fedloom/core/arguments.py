"""Arguments of Python calls: one of another type is refused in a sentence, before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError

LONGEST = 60
"""How many characters of a strange value an error shows."""


def whole_number(name: str, value: Any, least: int | None = 1) -> int:
    """An argument that counts.

    Args:
        name: The argument's name.
        value: What was given for it.
        least: The least that it may be; None sets no limit.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise argument_error(name, value, "it must be a whole number")
    if least is not None and value < least:
        raise FedloomError(f"{name}={value}: it must be at least {least}.")
    return int(value)


def real_number(name: str, value: Any) -> float:
    """An argument that is a number.

    Args:
        name: The argument's name.
        value: What was given for it.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise argument_error(name, value, "it must be a number")
    return float(value)


def path_from(name: str, value: Any) -> Path:
    """An argument that is a file or a folder.

    Args:
        name: The argument's name.
        value: What was given for it.
    """
    if isinstance(value, str) and not value.strip():
        raise argument_error(name, value, "it is empty: name a path")
    try:
        return Path(value)
    except TypeError:
        raise argument_error(name, value, "give a path") from None


def list_from(name: str, values: Any, example: str) -> list[Any]:
    """An argument that is a list; a single text or value is refused.

    Args:
        name: The argument's name.
        values: What was given for it.
        example: How it is written, without brackets.
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise argument_error(name, values, f"give a list, for instance {name}=[{example}]")
    return list(values)


def argument_error(name: str, value: Any, words: str) -> FedloomError:
    """The error for an argument of another type.

    Args:
        name: The argument's name.
        value: What was given for it.
        words: What it must be, without a full stop.
    """
    shown = " ".join(repr(value).split())  # the text of a module has several lines
    return FedloomError(f"{name}={shown[:LONGEST]}{'...' if len(shown) > LONGEST else ''}: {words}.")
