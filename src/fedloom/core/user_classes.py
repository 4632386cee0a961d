"""Classes of a user's own, named by their file: ``my_file.py:MyMethod`` or ``package.module:MyMethod``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from fedloom.core.errors import FedloomError

Kind = TypeVar("Kind")
_FILE = "fedloom_own_"


def own_class(name: str, base: type[Kind], what: str) -> type[Kind]:
    """The class that a name points at; it must be a ``base``. ``what`` is what it is called in an error."""
    where, _, kind = name.rpartition(":")
    try:
        if where.endswith(".py"):
            path = Path(where)
            inside = f"{_FILE}{path.stem}"  # never the name of a module that others import
            spec = importlib.util.spec_from_file_location(inside, path)
            if spec is None or spec.loader is None or not path.is_file():
                raise FedloomError(f"{what} '{name}': there is no file {where}.")
            module = importlib.util.module_from_spec(spec)
            sys.modules[inside] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except FedloomError:
        raise
    except Exception as error:  # whatever the user's own file raises
        raise FedloomError(f"{what} '{name}': {where} cannot be imported ({type(error).__name__}: {error}).") from error
    found = getattr(module, kind, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        described = "a fedloom " + base.__name__ if base is not object else f"a {what}"
        raise FedloomError(f"{what} '{name}': {where} has no class {kind} that is {described}.")
    return found


def own_modules() -> list[ModuleType]:
    """The files of a user's own that are loaded: no other process can import them by the names they have here."""
    return [module for name, module in sys.modules.items() if name.startswith(_FILE)]


def own_name(kind: type) -> str:
    """The name that points at a class from any folder: ``/a/my_file.py:MyMethod`` or ``package.module:MyMethod``."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) if kind.__module__.startswith(_FILE) else None
    return f"{kind.__module__ if file is None else Path(file).resolve()}:{kind.__qualname__}"
