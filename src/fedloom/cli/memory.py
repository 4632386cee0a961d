"""Keep freed memory for the next step.

Every local step makes and drops the same temporary tensors. glibc gives large ones back to the system at once and asks
for new, empty pages a moment later: an LSTM then trains a quarter slower (docs/models.md), a graph network a tenth.
This setting is of the whole process, so only the command line makes it, and the library never does.
"""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of the two settings in glibc's malloc.h."""


def keep_freed_memory() -> None:
    """Let glibc keep up to a gigabyte of freed memory. With another C library this does nothing."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(MMAP_THRESHOLD, 1 << 25)
    mallopt(TRIM_THRESHOLD, 1 << 30)
