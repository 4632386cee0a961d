"""Whose code may run: what a folder names is run only where the user has asked for it.

A config names classes as ``file.py:Class`` or ``package.module:Class``. ``run``, ``resume`` and ``conform`` load them.
Commands that read a folder, which may come from somebody else, do not: inside ``trust_only`` a name in a config is
refused unless the user has typed its file, or its class is loaded already. When a run starts, it notes the digest of
each file, so that ``resume`` can tell whether they are still the same; a user's own list (``started_code``) tells the
notes of her runs from those in a folder that somebody prepared.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.registry.local_imports import import_root, local_sources
from fedloom.registry.spec import split_spec
from fedloom.registry.started_code import is_remembered, remember_code

NOTE = "code/"
"""The prefix of a file's digest in the notes of a run (``made_by``)."""


@dataclass(frozen=True)
class _Limit:
    trusted: frozenset[str]
    reader: str


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)
_trusts_changes: ContextVar[bool] = ContextVar("trusts_changes", default=False)


@contextmanager
def trust_only(places: Collection[str], reader: str) -> Iterator[None]:
    """Refuse, inside, to load any code but that of files and modules which the user has named.

    Args:
        reader: What is read, for the error message.
    """
    token = _limit.set(_Limit(frozenset(map(place_of, places)), reader))
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def trust_changed_code(trusts: bool = True) -> Iterator[None]:
    """Let runs continue, inside, with files other than those they were started with."""
    token = _trusts_changes.set(trusts)
    try:
        yield
    finally:
        _trusts_changes.reset(token)


def may_load(name: str) -> bool:
    """Whether the code of a name may be loaded here.

    Args:
        name: ``file.py:Class`` or ``package.module:Class``.
    """
    limit = _limit.get()
    return limit is None or place_of(name) in limit.trusted


def refusal(name: str, what: str) -> FedloomError:
    """The error for code that may not be loaded. Every command that reads a folder has the option ``--trust``.

    Args:
        name: The name of the code.
        what: What it is, for instance ``method``.
    """
    limit, place = _limit.get(), name.rpartition(":")[0]
    reader = "it" if limit is None else limit.reader
    return FedloomError(
        f"{reader} names code, the {what} '{name[:200]}', which is not run because a folder names it: if you trust "
        f"that file, name it yourself with --trust {Path(place).name}."
    )


def place_of(name: str) -> str:
    """The file, as an absolute path, or the module in which a name is; a file or a module alone is itself.

    Args:
        name: ``file.py:Class``, ``package.module:Class``, ``file.py`` or ``package.module``.
    """
    where = name if name.endswith(".py") else name.rpartition(":")[0] or name
    return str(Path(where).resolve()) if where.endswith(".py") else where


def code_digest(place: str) -> str | None:
    """The SHA-256 of a file, or of a module's file, which is not run; None if there is no such file.

    Of a file that imports others from beside it, it is that of all of them.
    """
    is_file = place.endswith(".py")
    path = Path(place) if is_file else module_file(place)
    if path is None:
        return None
    sources = local_sources(path) if is_file else [path]
    try:
        if sources == [path]:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        digest, root = hashlib.sha256(), import_root(path)
        for source in sources:
            digest.update(hashlib.sha256(source.relative_to(root).as_posix().encode()).digest())
            digest.update(hashlib.sha256(source.read_bytes()).digest())
        return digest.hexdigest()
    except OSError:
        return None


def code_places(values: Any) -> list[str]:
    """The files and modules that a config may name code of: whatever is before a colon and is one.

    Args:
        values: The plain values of a config.
    """
    found: dict[str, None] = {}
    for text in _texts(values):
        place = text.rpartition(":")[0]
        if place.endswith(".py") or (place and all(part.isidentifier() for part in place.split("."))):
            found[place_of(text)] = None
    return list(found)


def code_notes(values: Mapping[str, Any]) -> dict[str, str]:
    """What a run notes of the code that its config names: the digest of each file.

    Args:
        values: The plain values of the config.
    """
    digests = {place: code_digest(place) for place in code_places(_without_notes(values))}
    return {f"{NOTE}{place}": digest for place, digest in digests.items() if digest is not None}


def remember_notes(values: Mapping[str, Any]) -> None:
    """Put the files that a run or a plan is started with on the user's own list.

    Args:
        values: The plain values of its config, with the notes.
    """
    notes = {note: str(digest) for note, digest in values.get("made_by", {}).items() if note.startswith(NOTE)}
    remember_code({note.removeprefix(NOTE): digest for note, digest in notes.items()})


def refuse_changed_code(values: Mapping[str, Any], where: object) -> None:
    """Refuse to continue with files that are not those that this user started a run or a plan with.

    Args:
        values: The plain values of its config, with the notes.
        where: Its folder.
    """
    if _trusts_changes.get():
        return
    notes = values.get("made_by", {})
    for note, digest in code_notes(values).items():
        place = note.removeprefix(NOTE)
        if note not in notes:
            why = "was not noted when the run was started"
        elif notes[note] != digest:
            why = "has changed since the run was started"
        elif not is_remembered(place, digest):
            why = "you have not started a run with on this machine"
        else:
            continue
        raise FedloomError(
            f"{where} runs the code of {place}, which {why}: read it, and repeat the command with --trust "
            "(trust=True in Python) if it may run, or restore it."
        )


def _without_notes(values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in values.items() if key != "made_by"}
    return kept | ({"config": _without_notes(kept["config"])} if isinstance(kept.get("config"), Mapping) else {})


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield from (split_spec(part)[0] for part in dict.fromkeys([values, *values.split("+")]))  # and the stages
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from _texts(value)
            if key == "models" and isinstance(value, Mapping):  # an entry that says no model is named by it
                yield from _texts([name for name, entry in value.items() if "model" not in _table(entry)])
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _texts(value)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def module_file(name: str) -> Path | None:
    """The file of a module, found without importing it or its packages."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if loaded is not None:
        return Path(loaded)
    folders: list[str] | None = None
    origin: str | None = None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        try:
            spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), folders)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        origin, folders = spec.origin, list(spec.submodule_search_locations or ())
    return None if origin is None else Path(origin)
