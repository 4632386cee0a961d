"""What a dataclass inherits stands in its docstring too, and in the source only once: in the base class.

A subclass writes what it adds. ``help``, ``fedloom list`` and an editor that asks a running Python show all of it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import fields, is_dataclass

SECTION = re.compile(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): .*(?:\n        .*)*", re.MULTILINE)


def with_inherited_arguments(kind: type) -> str | None:
    """The docstring of a class, with the entries of its bases about fields that it does not describe itself.

    Args:
        kind: A class whose bases are dataclasses; it may not be one yet.
    """
    own = vars(kind).get("__doc__")
    if own is None:
        return None
    text = inspect.cleandoc(own)
    known = {name: entry for base in reversed(kind.__mro__[1:]) for name, entry in _entries(base).items()}
    inherited = [field.name for base in kind.__mro__[1:] if is_dataclass(base) for field in fields(base)]
    missing = [known[name] for name in dict.fromkeys(inherited) if name in known and name not in _entries_of(text)]
    if not missing:
        return str(own)
    head, start, rest = text.partition("Args:\n")
    lines = "\n".join([*missing, *([rest] if start else [])])
    return textwrap.indent(f"{head.rstrip()}\n\nArgs:\n{lines}", "    ").strip() + "\n    "


def _entries(kind: type) -> dict[str, str]:
    return _entries_of(inspect.cleandoc(vars(kind).get("__doc__") or ""))


def _entries_of(text: str) -> dict[str, str]:
    """What a docstring says of each argument, as its lines."""
    section = SECTION.search(text)
    return {found[1]: found[0] for found in ENTRY.finditer(section[1])} if section else {}
