"""Follow ``metrics.jsonl`` while a run writes it: what is new since the last look, by reading alone.

A run that is resumed cuts the file back to its last checkpoint and writes on, perhaps past the old end before anybody
looks again. That is noticed by the file itself (another one took its place, or it is shorter) and by the bytes before
the place that was read last; then everything is read again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

from fedloom.files.json_text import parse_json
from fedloom.files.regular_file import open_regular

CHUNK = 1 << 22
"""Bytes that are read at once."""
LONGEST = 1 << 26
"""Bytes of a line that are waited for; a longer one is not of a run."""
MEMORY = 256
"""Bytes before the place that was read last, by which a rewritten file is noticed."""


class RecordTail:
    """The lines of a file of JSON objects, each once.

    Args:
        path: The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rewritten = 0
        """How often the file was found to be replaced: what was read before no longer counts."""
        self.damaged = 0
        """How many lines were not a JSON object."""
        self._file: tuple[int, int] | None = None
        self._place, self._before = 0, b""

    def new(self) -> list[dict[str, Any]]:
        """The objects that were written since the last call; all of them if the file was rewritten."""
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            if self._place:
                self._start_again()
            return []
        with file:
            found = os.fstat(file.fileno())
            if self._file not in (None, (found.st_dev, found.st_ino)) or not self._follows(file):
                self._start_again()
            self._file = found.st_dev, found.st_ino
            return [value for line in self._lines(file) if (value := self._value(line)) is not None]

    def _follows(self, file: BinaryIO) -> bool:
        """Whether the bytes that were read last are still where they were."""
        file.seek(self._place - len(self._before))
        return file.read(len(self._before)) == self._before

    def _start_again(self) -> None:
        self.rewritten += 1
        self.damaged = 0
        self._file, self._place, self._before = None, 0, b""

    def _lines(self, file: BinaryIO) -> list[bytes]:
        """The complete lines from the place that was read last on."""
        file.seek(self._place)
        lines: list[bytes] = []
        rest = b""
        while chunk := file.read(CHUNK):
            *whole, rest = (rest + chunk).split(b"\n")
            lines += whole
            if len(rest) > LONGEST:
                raise OSError(f"{self.path} has a line of more than {LONGEST >> 20} MB")
        self._place += sum(map(len, lines)) + len(lines)
        if lines:
            self._before = (lines[-1] + b"\n")[-MEMORY:]
        return lines

    def _value(self, line: bytes) -> dict[str, Any] | None:
        try:
            value = parse_json(line)
        except ValueError:
            value = None
        if isinstance(value, dict):
            return value
        self.damaged += 1
        return None
