"""Another user of the machine, ``nobody``, who tries what a local attacker can: ports, sockets, files and processes.

``try_as_nobody`` starts this file as a program. It drops to ``nobody`` and says what it got.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  (loaded before the drop: nobody may not read this Python's files)
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

NOBODY = 65534


def try_as_nobody(wanted: dict[str, Any]) -> dict[str, Any]:
    """What ``nobody`` gets.

    Args:
        wanted: ``calls`` (path, headers and body as hex), ``ports`` at which they are made, ``sockets`` that are
            connected to, ``files`` that are read, and ``processes`` whose command lines and environments are read.

    Returns:
        ``answers`` (port, scheme, path, status), ``connected`` sockets, ``read`` files, and ``commands`` and
        ``environments`` of processes.
    """
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(wanted), capture_output=True, text=True, timeout=300, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def descendants(roots: set[int]) -> set[int]:
    """Some processes and all that they have started."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = set(roots)
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening_ports(processes: set[int]) -> list[int]:
    """The TCP ports on which some processes listen."""
    inodes = set()
    for process in processes:
        try:
            for link in Path(f"/proc/{process}/fd").iterdir():
                target = os.readlink(link)
                inodes |= {target[8:-1]} if target.startswith("socket:[") else set()
        except OSError:
            continue
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return sorted(ports)


def _answer(port: int, scheme: str, call: dict[str, Any]) -> int | str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = (
        http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        if scheme == "https"
        else http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    )
    try:
        connection.request("POST", call["path"], bytes.fromhex(call["body"]), call["headers"])
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as why:
        return type(why).__name__
    finally:
        connection.close()


def _is_connected(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(path)
        except OSError:
            return False
        return True


def _content(path: str) -> str | None:
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return None


def main() -> None:
    """Drop to nobody, try everything, and print what came of it."""
    wanted = json.load(sys.stdin)
    ssl.create_default_context()
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    answers = [
        (port, scheme, call["path"], _answer(port, scheme, call))
        for port in wanted["ports"]
        for scheme in ("https", "http")
        for call in wanted["calls"]
    ]
    numbers = wanted["processes"]
    print(json.dumps({
        "user": os.getuid(),
        "answers": answers,
        "connected": [path for path in wanted["sockets"] if _is_connected(path)],
        "read": [path for path in wanted["files"] if _content(path) is not None],
        "commands": [content for number in numbers if (content := _content(f"/proc/{number}/cmdline")) is not None],
        "environments": [number for number in numbers if _content(f"/proc/{number}/environ") is not None],
    }))  # fmt: skip


if __name__ == "__main__":
    main()
