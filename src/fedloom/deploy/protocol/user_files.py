"""User-defined classes in a run file (``my_file.py:MyMethod``): their files are copied into each participant's folder.

The operator hands the folder over; code is never sent over the network.
"""

from __future__ import annotations

import copy
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fedloom.config.training_code import TRAINING_CODE
from fedloom.core.errors import FedloomError
from fedloom.registry.kinds import PARTS
from fedloom.registry.local_imports import import_root, local_sources
from fedloom.registry.spec import split_spec
from fedloom.tasks.architectures import with_named_models


def named_code(plain: dict[str, Any]) -> list[str]:
    """The names in a config that are user code, ``file.py:Class`` or ``package.module:Class``."""
    names = (split_spec(str(place[key]))[0] for place, key in _names(_copy(plain)))
    return [name for name in names if ":" in name]


def with_relative_files(plain: dict[str, Any]) -> dict[str, Any]:
    """The config with the file names as they are inside a participant's folder."""
    return _with_relative_labels(_with_files(plain, inner_name))


def user_files(plain: dict[str, Any]) -> list[Path]:
    """The files of user-defined classes in a config and what they import from beside them, by their names."""
    named = {file for name in named_code(plain) if (file := _file_of(name)) is not None}
    return sorted({source for file in named for source in local_sources(file.resolve())}, key=inner_name)


def copy_user_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Copy the files of user-defined classes into a folder; the config that names them there."""
    files = user_files(plain)
    for name, count in Counter(map(inner_name, files)).items():
        if count > 1:
            raise FedloomError(f"two files are called {name}: give each its own name.")
    for file in files:
        (folder / inner_name(file)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / inner_name(file))
    return with_relative_files(plain)


def inner_name(file: Path) -> str:
    """What a file is called inside a participant's folder: with the folders of its package."""
    file = file.resolve()
    return file.relative_to(import_root(file)).as_posix()


def with_absolute_files(plain: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config of a folder with absolute file names."""
    return _with_files(plain, lambda file: str(file if file.is_absolute() else (folder / file).resolve()))


def _names(plain: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Where a config names a class or a function: a section or a list, and the key of the name in it."""
    task = plain.get("task", {})
    if "model" in task:
        yield task, "model"
    yield from ((entry, "model") for entry in _models(plain).values())
    lists = [task.get("metrics", []), *(plain.get(kind.key, []) for kind in PARTS if kind.is_list)]
    single = [(plain, key) for key in ("method", *(kind.key for kind in PARTS if not kind.is_list)) if key in plain]
    lists += [place[key] for place, key in single if isinstance(place[key], list)]  # rules that act in turn
    single = [(place, key) for place, key in single if not isinstance(place[key], list)]
    single += [(task, "loss")] if "loss" in task else []
    method = plain.get("method")
    while isinstance(method, dict) and "inner" in method:  # FedSeq's chains follow another method
        single.append((method, "inner"))
        method = method["inner"]
    training = [plain.get(section) or {} for section in ("local", "server_optimizer")]
    single += [(place, key) for place in training for key in TRAINING_CODE if key in place]
    for place, key in [*single, *((parts, number) for parts in lists for number in range(len(parts)))]:
        if isinstance(place[key], str):
            yield place, key
        elif "name" in place[key]:
            yield place[key], "name"


def _copy(plain: dict[str, Any]) -> dict[str, Any]:
    """A copy of the config in which every entry of ``task.models`` says its model."""
    plain = copy.deepcopy(plain)
    return {**plain, "task": with_named_models(plain["task"])} if "task" in plain else plain


def _models(plain: dict[str, Any]) -> dict[str, Any]:
    models = plain.get("task", {}).get("models")
    return models if isinstance(models, dict) else {}


def _with_relative_labels(plain: dict[str, Any]) -> dict[str, Any]:
    """The config whose architectures are not called by paths of the operator's; a method's settings may name them."""
    models = _models(plain)
    labels = {label: _with_file(label, inner_name) for label in models}
    for label, count in Counter(labels.values()).items():
        if count > 1:
            raise FedloomError(f"task.models: two models are called {label}: give each a name of its own and a table.")
    if labels:
        plain["task"]["models"] = {labels[label]: entry for label, entry in models.items()}
        plain["method"] = _with_keys(plain["method"], labels)
    return plain


def _with_keys(values: Any, names: Mapping[str, str]) -> Any:
    if isinstance(values, Mapping):
        return {names.get(key, key): _with_keys(value, names) for key, value in values.items()}
    return values


def _file_of(name: str) -> Path | None:
    where = split_spec(name)[0].rpartition(":")[0]
    return Path(where) if where.endswith(".py") else None


def _with_file(name: str, change: Callable[[Path], str]) -> str:
    """A name of user code, with or without options, with its file under another name; other names stay."""
    file = _file_of(name)
    if file is None:
        return name
    own = split_spec(name)[0]
    return f"{change(file)}:{own.rpartition(':')[2]}{name[len(own) :]}"


def _with_files(plain: dict[str, Any], change: Callable[[Path], str]) -> dict[str, Any]:
    """The config with every file of user code under another name."""
    plain = _copy(plain)
    for place, key in _names(plain):
        place[key] = _with_file(str(place[key]), change)
    return plain
