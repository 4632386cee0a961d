"""Functions that take settings as arguments: their signature and docstring come from the declarations."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from fedloom.registry.setting import DeclaredSetting, declared_settings

Function = TypeVar("Function", bound=Callable[..., Any])
TAKEN = re.compile(r"^( *)\*\*settings: .*\n(?:\1 +.*\n)*", re.MULTILINE)
"""What the docstring of such a function says about its settings in the source."""


def documents_settings(owner: type, *, without: Collection[str] = ()) -> Callable[[Function], Function]:
    """Give a function that takes ``**settings`` the signature and the documented arguments that it has for users.

    Args:
        owner: The class that declares the settings.
        without: Settings that the function does not take.
    """

    def document(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {*signature.parameters, *without}
        settings = [one for one in declared_settings(owner) if one.name not in taken]
        others = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.text)
            for one in settings
        ]
        function.__signature__ = signature.replace(parameters=[*own, *others])  # type: ignore[attr-defined]
        function.__doc__ = TAKEN.sub(lambda found: _entries(settings, found[1]), function.__doc__ or "")
        return function

    return document


def _entries(settings: list[DeclaredSetting], indent: str) -> str:
    """The lines of a docstring about some settings."""
    lines = [f"{one.name}: {with_usual(one)}".replace("`", "``") for one in settings]
    filled = (textwrap.fill(line, 112, initial_indent=indent, subsequent_indent=f"{indent}    ") for line in lines)
    return "".join(f"{one}\n" for one in filled)


def with_usual(one: DeclaredSetting) -> str:
    """The help of a setting, and what happens without it."""
    return one.setting.help + (f" By default {one.setting.usual}." if one.setting.usual else "")
