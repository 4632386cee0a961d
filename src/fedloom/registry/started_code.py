"""Which files of code this user has started runs with, on this machine: noted outside of every run's folder.

A run notes the digests of its files in its own folder, but whoever makes a folder also makes its notes. So ``resume``
believes them only where the user's own list has the same file, by its path and its digest.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger("fedloom")


def list_path() -> Path:
    """The user's list: ``fedloom/started_code.jsonl`` in ``$XDG_STATE_HOME`` or ``~/.local/state``.

    A user without a home is an ``OSError``.
    """
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise OSError(errno.ENOENT, "this user has no home folder", "~") from None
    return Path(state) / "fedloom" / "started_code.jsonl"


def remember_code(digests: Mapping[str, str]) -> None:
    """Add files to the user's list; a list that cannot be written is reported, and ``resume`` then asks.

    Args:
        digests: The digest of each file or module, by its place.
    """
    lines = [_line(place, digest) for place, digest in digests.items() if not is_remembered(place, digest)]
    if not lines:
        return
    try:
        path = list_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as file:
            file.write("".join(lines))
    except OSError as why:
        log.warning("%s cannot be written (%s), so fedloom resume will ask for --trust", why.filename, why.strerror)


def is_remembered(place: str, digest: str) -> bool:
    """Whether this user has started a run with a file as it is."""
    try:
        known = list_path().read_text().splitlines(keepends=True)
    except (OSError, ValueError):
        return False
    return _line(place, digest) in known


def _line(place: str, digest: str) -> str:
    return json.dumps([digest, place]) + "\n"
