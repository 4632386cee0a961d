"""User-defined classes and functions, named by their file or module: ``my_file.py:Mine`` or ``package.module:Mine``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from fedloom.core.errors import FedloomError
from fedloom.registry.code_consent import may_load, refusal
from fedloom.registry.user_errors import describe_error

Kind = TypeVar("Kind")
_PREFIX = "fedloom_user_"
_CONTENTS: dict[str, bytes] = {}
"""The content of each user's file when it was last run."""


def user_class(name: str, base: type[Kind], what: str) -> type[Kind]:
    """Import a user-defined class.

    Args:
        name: ``file.py:Class`` or ``package.module:Class``.
        base: The class that it must be a subclass of.
        what: What an error calls it, for instance ``method``.
    """
    if not may_load(name):
        return _loaded_class(name, base, what)
    found = _user_object(name, what)
    where, _, class_name = name.rpartition(":")
    if not (isinstance(found, type) and issubclass(found, base)):
        described = "a fedloom " + base.__name__ if base is not object else f"a {what}"
        raise FedloomError(f"{what} '{name}': {where} has no class {class_name} that is {described}.")
    return found


def user_callable(name: str, what: str) -> Callable[..., Any]:
    """Import a user-defined class or function.

    Args:
        name: ``file.py:name`` or ``package.module:name``.
        what: What an error calls it, for instance ``model``.
    """
    if not may_load(name):
        raise refusal(name, what)
    found = _user_object(name, what)
    if not callable(found):
        where, _, own = name.rpartition(":")
        raise FedloomError(f"{what} '{name}': {where} has no class or function {own}.")
    made: Callable[..., Any] = found
    return made


def _loaded_class(name: str, base: type[Kind], what: str) -> type[Kind]:
    """A class that this process has loaded already, for code that may not be loaded: nothing is run for it."""
    where, _, class_name = name.rpartition(":")
    found = getattr(sys.modules.get(_module_name(Path(where)) if where.endswith(".py") else where), class_name, None)
    if base is object or not (isinstance(found, type) and issubclass(found, base)):
        raise refusal(name, what)
    return found


def _user_object(name: str, what: str) -> object:
    """What a user's file or module has under a name; None if it has nothing."""
    where, _, own = name.rpartition(":")
    try:
        module = (
            _load_file(Path(where), f"{what} '{name}'") if where.endswith(".py") else importlib.import_module(where)
        )
    except FedloomError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's file raises; a script may end itself
        raise FedloomError(f"{what} '{name}': {where} cannot be imported ({describe_error(error)}).") from error
    found = getattr(module, own, None)
    if found is None and (where == "__main__" or "<locals>" in own):
        raise FedloomError(
            f"{what} '{own}' was defined in a script or inside a function, where no other process can find it: "
            "put it at the top of a file and name it file.py:Class, or continue from the script that defines it."
        )
    return found


def _load_file(path: Path, called: str) -> ModuleType:
    """Run a Python file as a module whose name no other module has; a file that has not changed is run once."""
    path = path.resolve()
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FedloomError(f"{called}: there is no file {path}.")
    content = path.read_bytes()
    if name in sys.modules and _CONTENTS.get(name) == content:
        return sys.modules[name]
    _CONTENTS[name] = content
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _module_name(path: Path) -> str:
    """The name of a file's module, which no other module has."""
    path = path.resolve()
    return f"{_PREFIX}{path.stem}_{hashlib.blake2b(str(path).encode(), digest_size=4).hexdigest()}"


def user_modules() -> list[ModuleType]:
    """The loaded modules of user files; other processes cannot import them by their names."""
    return [module for name, module in sys.modules.items() if name.startswith(_PREFIX)]


def user_class_name(kind: Any) -> str:
    """The name that finds a class or function from any folder: ``/a/my_file.py:Mine`` or ``package.module:Mine``."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) if kind.__module__.startswith(_PREFIX) else None
    return f"{kind.__module__ if file is None else Path(file).resolve()}:{kind.__qualname__}"


def resolve_user_file(name: str) -> str:
    """The same name with the absolute path of its file; names without a file stay as they are."""
    where, _, class_name = name.rpartition(":")
    return f"{Path(where).resolve()}:{class_name}" if where.endswith(".py") else name
