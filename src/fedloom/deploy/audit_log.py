"""``audit.jsonl`` of a participant's folder: who did what and when, one line of JSON each, only ever appended to.

Each line holds the SHA-256 of the line before it, so a line that is edited, removed or put in between breaks the chain
at that place. Lines that are cut off the end do not: :attr:`AuditTrail.head`, noted elsewhere, shows those. The log
names people, sites, files and reasons; it holds no key, no token and no data. What cannot be recorded is not done: a
full disk ends the action with an error.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pwd
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from fedloom.deploy.protocol.printable import printable_line
from fedloom.files.json_text import parse_json
from fedloom.files.regular_file import read_regular

AUDIT = "audit.jsonl"
NOTHING = "0" * 64
"""What the first line has instead of the digest of the line before."""
LONGEST = 300
"""Characters of a fact that are kept."""
_TAIL = 1 << 16
"""Bytes in which the last line must begin."""

What = Literal[
    "folder made",
    "server started",
    "server stopped",
    "settings changed",
    "run submitted",
    "run approved",
    "run started",
    "run resumed",
    "run set back",
    "run finished",
    "run stopped",
    "stop requested",
    "site started",
    "site stopped",
    "site connected",
    "site refused",
    "site added",
    "site revoked",
    "certificates renewed",
    "request refused",
    "handshakes given up",
    "connections refused",
]
"""What can be recorded; ``request refused`` is a site's policy against what the server asks, ``handshakes given up``
are connections to the server's port that never showed a certificate, and ``connections refused`` those of an address
that has too many."""


@dataclass(frozen=True)
class AuditTrail:
    """The lines of an audit log, and whether they are the ones that were written.

    Args:
        entries: The lines as dictionaries; a line that is not a JSON object is left out.
        head: The SHA-256 of the last line.
        problem: Where the chain breaks, in one sentence; empty if it is whole.
    """

    entries: list[dict[str, Any]]
    head: str
    problem: str


def append(folder: Path, what: What, **facts: str | int | float | bool | None) -> None:
    """Append a line to the audit log of a participant's folder.

    Args:
        folder: The server's folder or a site's.
        facts: More about it, for instance ``site="north"`` and ``reason="…"``. Never a key, a token or data.
    """
    short = {name: printable_line(fact, LONGEST) if isinstance(fact, str) else fact for name, fact in facts.items()}
    with open(os.open(folder / AUDIT, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # server, server half and operator write to the same file
        last, whole = _last_line(file)
        entry = {"time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "who": user_name(), "what": what} | short
        line = json.dumps(entry | {"before": _digest(last) if last else NOTHING}, ensure_ascii=False).encode() + b"\n"
        file.write(line if whole else b"\n" + line)
        os.fsync(file.fileno())


def append_changed_settings(folder: Path, name: str) -> None:
    """Record that a settings file is not the last one that was recorded, by its digest; otherwise do nothing.

    Args:
        folder: The participant's folder.
        name: The name of its settings file.
    """
    digest = file_digest(folder / name)
    known = [entry["settings"] for entry in read_audit(folder).entries if "settings" in entry]
    if not known or known[-1] != digest:
        append(folder, "settings changed", file=name, settings=digest)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, under which settings are recorded."""
    return _digest(path.read_bytes())


def read_audit(folder: Path) -> AuditTrail:
    """Read the audit log of a folder and check its chain; an empty trail if there is no log."""
    path = folder / AUDIT
    try:
        content = read_regular(path)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        return AuditTrail([], NOTHING, f"{path} cannot be read ({error.strerror}).")
    lines = content.split(b"\n")
    unfinished = lines.pop()  # behind the last newline
    entries, before, problem = [], NOTHING, ""
    for number, line in enumerate(lines, 1):
        entry = _entry(line)
        if entry is None:
            problem = problem or f"line {number} of {path} is not an entry: it was damaged, or its writer was killed."
        else:
            if entry.get("before") != before:
                change = "the first line was removed or edited" if number == 1 else f"line {number - 1} was edited"
                problem = problem or (
                    f"line {number} of {path} does not follow from the one before: {change}, or lines were removed or "
                    "put in between."
                )
            entries.append(entry)
        before = _digest(line)
    if unfinished and not problem:
        problem = f"the last line of {path} is incomplete: its writer was killed, or the file was cut."
    return AuditTrail(entries, before, problem)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _last_line(file: BinaryIO) -> tuple[bytes, bool]:
    """The last line of a file, and whether it is complete."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _TAIL))
    content = file.read()
    return content.removesuffix(b"\n").rpartition(b"\n")[2], not content or content.endswith(b"\n")


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def user_name() -> str:
    """The name of the user whose process this is; its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
