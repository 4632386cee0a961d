"""A pipe in the place of a file: whoever opens it for reading would wait for ever, and is found out instead."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def pipe_instead(path: Path) -> Iterator[list[Path]]:
    """Put a pipe in the place of a file; the list has the file as soon as somebody has opened it for reading."""
    content, found, over = path.read_bytes(), list[Path](), threading.Event()
    path.unlink()
    os.mkfifo(path)

    def answer() -> None:
        while not over.is_set():
            with suppress(OSError):  # nobody reads
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # the reader gets an empty file
                found.append(path)
            over.wait(0.001)

    watcher = threading.Thread(target=answer, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
        path.unlink()
        path.write_bytes(content)
