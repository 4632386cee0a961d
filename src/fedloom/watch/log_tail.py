"""The ends of a participant's logs, as lines that are safe to show: no escape codes, nothing outside the folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fedloom.deploy.protocol.printable import printable_line
from fedloom.files.regular_file import open_regular

FOLDERS = ("logs", "proxy")
"""Where the programs of a participant write."""
LINES, BYTES, WIDEST = 80, 1 << 15, 400
"""The most lines, the bytes at the end of a file that they come from, and the most characters of each."""
MOST = 8
"""Logs, at most."""
_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)


def log_tails(folder: Path) -> dict[str, list[str]]:
    """The last lines of each log of a participant's folder, by the log's name; links are not followed."""
    tails = {}
    for place in FOLDERS:
        if (folder / place).is_symlink():
            continue
        for path in sorted((folder / place).glob("*.log"))[:MOST]:
            if path.name != "access.log" and (lines := tail_lines(path)):
                tails[f"{place}/{printable_line(path.name, 80)}"] = lines
    return tails


def tail_lines(path: Path) -> list[str]:
    """The last lines of a file; none if it cannot be read."""
    try:
        with open_regular(path) as file:
            start = max(0, file.seek(0, os.SEEK_END) - BYTES)
            file.seek(start)
            content = file.read(BYTES)
    except OSError:
        return []
    lines = content.decode(errors="replace").splitlines()
    return [plain_line(line) for line in lines[1 if start else 0 :][-LINES:]]


def plain_line(line: str) -> str:
    """A line of a log without escape codes and other characters that cannot be printed."""
    return printable_line(_ESCAPE.sub("", line).replace("\t", "  "), WIDEST)
