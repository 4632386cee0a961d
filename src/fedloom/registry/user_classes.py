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
from fedloom.registry.code_consent import may_load, module_file, refusal
from fedloom.registry.local_imports import INIT, import_root, local_sources, module_of
from fedloom.registry.user_errors import describe_error

Kind = TypeVar("Kind")
_PREFIX = "fedloom_user_"
_CONTENTS: dict[Path, bytes] = {}
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
    where, _, own = resolve_user_file(name).rpartition(":")
    try:
        module = (
            _load_file(Path(where), f"{what} '{name}'") if where.endswith(".py") else importlib.import_module(where)
        )
    except FedloomError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's file raises; a script may end itself
        loose = "relative import" in str(error) and where.endswith(".py") and not (Path(where).parent / INIT).exists()
        hint = f": add an empty {INIT} beside it, which makes its folder a package" if loose else ""
        raise FedloomError(f"{what} '{name}': {where} cannot be imported ({describe_error(error)}){hint}.") from error
    found = getattr(module, own, None)
    if found is None and (where == "__main__" or "<locals>" in own):
        raise FedloomError(
            f"{what} '{own}' was defined in a script or inside a function, where no other process can find it: "
            "put it at the top of a file and name it file.py:Class, or continue from the script that defines it."
        )
    return found


def _load_file(path: Path, called: str) -> ModuleType:
    """Run a Python file; a file that has not changed, and imports none that has, is run once.

    A file of a package is imported as Python does it, so that relative imports work. Any other file becomes a module
    whose name no other module has. What lies beside it can be imported, too.
    """
    path = path.resolve()
    if not path.is_file():
        raise FedloomError(f"{called}: there is no file {path}.")
    sources = local_sources(path)
    contents = {source: source.read_bytes() for source in sources}
    is_packaged = (path.parent / INIT).is_file()
    name = module_of(path) if is_packaged else _module_name(path)
    changed = [source for source, content in contents.items() if _CONTENTS.get(source) != content]
    if name in sys.modules and not changed:
        return sys.modules[name]
    if changed:  # what imported an old file has it still
        for loaded in [one for one in user_modules() if Path(one.__file__ or "") in contents]:
            del sys.modules[loaded.__name__]
    _CONTENTS.update(contents)
    root = str(import_root(path))
    if len(sources) > 1 and root not in sys.path:
        sys.path.append(root)  # at the end: a user's random.py is not everybody's
    importlib.invalidate_caches()
    module = importlib.import_module(name) if is_packaged else _run_file(path, name)
    for source in sources:
        there = sys.modules.get(module_of(source))
        if there is not None and source != path and Path(there.__file__ or "").resolve() != source:
            raise FedloomError(
                f"{called}: {source.name} beside it has the name of another module, {there.__name__}, which is "
                "imported instead: rename the file."
            )
    return module


def _run_file(path: Path, name: str) -> ModuleType:
    """Run a file as the module of a name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not Python")
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
    return [module for module in list(sys.modules.values()) if _is_of_user(module)]


def _is_of_user(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file) in _CONTENTS


def user_class_name(kind: Any) -> str:
    """The name that finds a class or function from any folder: ``/a/my_file.py:Mine`` or ``package.module:Mine``."""
    module = sys.modules.get(kind.__module__)
    file = module.__file__ if module is not None and _is_of_user(module) else None
    return f"{kind.__module__ if file is None else Path(file).resolve()}:{kind.__qualname__}"


def resolve_user_file(name: str) -> str:
    """The same name with the absolute path of its file; names of installed modules stay as they are.

    A module that is not installed may lie in the working folder: ``mypkg.nets:Net`` is ``/here/mypkg/nets.py:Net``.
    """
    where, colon, class_name = name.rpartition(":")
    if not where.endswith(".py"):
        file = _file_of_module(where) if colon else None
        return name if file is None else f"{file}:{class_name}"
    return f"{Path(where).resolve()}:{class_name}"


def _file_of_module(name: str) -> Path | None:
    """The file of a module in the working folder; None if there is none, or the name is another module's."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    place = Path(*parts).resolve()
    file = next((one for one in (place.with_suffix(".py"), place / INIT) if one.is_file()), None)
    if file is None or module_file(name) not in (None, file):
        return None
    return file
