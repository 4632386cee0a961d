"""Read files of a folder that may come from somebody else: only regular ones.

A link may lead to any file of this machine, and a pipe never ends: who reads it waits for ever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from fedloom.files.limits import check_size, most_json


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, but neither a link nor a pipe nor a device: these are an ``OSError``."""
    _check(path, os.lstat(path))
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(handle))
    except OSError:
        os.close(handle)
        raise
    return open(handle, "rb")


def read_regular(path: Path) -> bytes:
    """The content of a file that is neither a link nor a pipe nor a device: these are an ``OSError``."""
    with open_regular(path) as file:
        check_size(path, most_json())
        return file.read()


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it is not a regular file", str(path))
