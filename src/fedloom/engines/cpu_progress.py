"""Whether a process with work to do still computes: its CPU time must grow. A slow one is not a hanging one."""

from __future__ import annotations

import os
import time
from pathlib import Path

STILL_SECONDS = 300.0
"""A process whose CPU time grew by less than ``LEAST_CPU`` seconds within this many seconds hangs."""
LEAST_CPU = 0.2


class CpuProgress:
    """The CPU time of a process, seen from time to time. Without ``/proc`` (outside Linux) no process ever hangs.

    Args:
        process: The number of the process.
    """

    def __init__(self, process: int) -> None:
        self.path = Path(f"/proc/{process}/stat")
        self.restart()

    def restart(self) -> None:
        """Begin to watch: the process has got something to do."""
        self.since, self.cpu = time.monotonic(), self._cpu_seconds()

    def stands_still(self) -> bool:
        """Whether the process has hardly computed for ``STILL_SECONDS``."""
        cpu = self._cpu_seconds()
        if cpu is None or self.cpu is None:
            return False
        if cpu - self.cpu >= LEAST_CPU:
            self.since, self.cpu = time.monotonic(), cpu
        return time.monotonic() - self.since > STILL_SECONDS

    def _cpu_seconds(self) -> float | None:
        """User and system time: fields 14 and 15, counted after the name, which may contain spaces."""
        try:
            fields = self.path.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
