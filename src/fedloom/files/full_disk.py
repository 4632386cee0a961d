"""A full disk ends a run in one sentence; nothing is lost, since every file is written whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.files.resume_command import resume_command


@contextmanager
def explain_full_disk(folder: Path | None) -> Iterator[None]:
    """Turn the system's error for a full disk, or a used-up quota, into a sentence.

    Args:
        folder: The folder that is written; None if nothing is.
    """
    try:
        yield
    except OSError as error:
        if folder is None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise FedloomError(
            f"{folder}: {error.strerror}; make room, then {resume_command(folder)} continues from the last checkpoint."
        ) from None
