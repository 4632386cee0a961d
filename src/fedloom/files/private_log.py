"""Logs that only their owner can read: they name sites, people, addresses and reasons."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def open_private_log(path: Path) -> BinaryIO:
    """A log, opened to append to it, with mode 600 whatever the umask is and whatever mode it had before."""
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(number, 0o600)
    return os.fdopen(number, "ab")
