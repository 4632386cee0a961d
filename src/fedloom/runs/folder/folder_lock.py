"""One process per run folder: a lock that the system gives back when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.files.json_text import parse_json
from fedloom.files.regular_file import read_regular

LOCK = ".lock"
CLOCK_SLACK = 60.0
"""Seconds by which a clock may have been set while a process held a folder."""
_held: set[FileIO] = set()


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; if another process holds it, say which one.

    Args:
        folder: The folder, which exists.
    """
    path = folder / LOCK
    file = _take(path, folder)
    holder = {"process": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
    file.truncate(0)
    file.write(json.dumps(holder | {"command": command}).encode())
    _held.add(file)
    try:
        yield
    finally:
        _held.discard(file)
        path.unlink(missing_ok=True)
        file.close()


def _take(path: Path, folder: Path) -> FileIO:
    """The locked file. One that its holder has removed meanwhile does not count."""
    while True:
        file = FileIO(path, "a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise FedloomError(f"{folder} is in use by {_holder(path)}: wait for it, or stop it.") from None
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
        file.close()


def lock_holder(folder: Path) -> dict[str, Any] | None:
    """Which process holds a folder, without touching the lock: ``process``, ``host``, ``since``, ``command``.

    None if nobody does. A process of another machine that shares the folder is taken at its word; of this machine's,
    the number must belong to a process that is older than the lock: numbers are used again.
    """
    try:
        holder = parse_json(read_regular(folder / LOCK))
        process, host, since = int(holder["process"]), str(holder["host"]), datetime.fromisoformat(holder["since"])
        command = str(holder["command"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if host == socket.gethostname() and not _is_holder(process, since.timestamp()):
        return None
    return {"process": process, "host": host, "since": since.timestamp(), "command": command}


def _is_holder(process: int, since: float) -> bool:
    """Whether a process of this machine lives and is old enough to have taken a lock at that time."""
    try:
        os.kill(process, 0)
    except PermissionError:  # another user's
        pass
    except (OSError, OverflowError):
        return False
    try:
        ticks = int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return True  # a system without /proc
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age < since + CLOCK_SLACK


def _holder(path: Path) -> str:
    try:
        holder = parse_json(read_regular(path))
        return f"process {holder['process']} on {holder['host']} since {holder['since']} ({holder['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _forget_in_child() -> None:
    """A forked worker must not hold its parent's locks: it could outlive a parent that is killed."""
    for file in _held:
        file.close()
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
