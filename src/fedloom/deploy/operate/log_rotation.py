"""Logs that do not fill a disk: a log that has grown large is copied to ``.1``, ``.2`` and so on, and emptied.

It is emptied and not renamed, since the programs that write it, also nginx, have it open and append to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

REFUSALS = "policy.jsonl"
"""What a site has refused; a server that asks on and on makes it grow."""
LARGEST = 16 << 20
"""Bytes of a log that make it an old one."""
KEPT = 3
"""How many old logs are kept."""
EVERY = 10.0
"""Seconds between two checks."""


def old_log(log: Path, age: int = 1) -> Path:
    """The path of an old log; 1 is the last."""
    return log.with_name(f"{log.name}.{age}")


def rotate(log: Path) -> None:
    """Make a log the last old one, and empty it."""
    for age in range(KEPT - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(old_log(log, age), old_log(log, age + 1))
    draft = old_log(log, 0)
    shutil.copyfile(log, draft)
    draft.chmod(0o600)
    os.replace(draft, old_log(log))
    os.truncate(log, 0)


class LogRotation:
    """Rotates the logs of a participant's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.next = folder, 0.0

    def check(self) -> None:
        """Rotate the logs that are too large, if the last check is a while ago."""
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY
        logs = [log for place in ("logs", "proxy") for log in (self.folder / place).glob("*.log")]
        for log in [*logs, self.folder / REFUSALS]:
            with contextlib.suppress(OSError):  # a full disk: the log grows, and the next check tries again
                if log.stat().st_size > LARGEST:
                    rotate(log)
