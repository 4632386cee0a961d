"""A small web server for a page of this machine, and who of this machine may see it.

A loopback port is open to every user of the machine. So a page about something private is shown to the user who serves
it and to root, whom the kernel's table of connections names. Only Linux has that table: elsewhere a page is served only
about what every user may read anyway.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import stat
import sys
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError

CONNECTIONS = Path("/proc/net")
"""Where Linux lists the connections of a machine with their users, in ``tcp`` and ``tcp6``."""
SLOWEST = 30.0
"""Seconds that a browser may take to send a request, or to take what it is sent."""


class PageServer(ThreadingHTTPServer):
    """Listens on a port; what is wrong with the port is one sentence.

    Args:
        address: The address to listen on.
        port: The port; 0 chooses a free one.
        request: Answers a request.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str, port: int, request: type[BaseHTTPRequestHandler]) -> None:
        try:
            super().__init__((address, port), request)
        except (OSError, OverflowError) as error:
            raise FedloomError(_port_sentence(address, port, error)) from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away; everything else is ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class PageRequest(BaseHTTPRequestHandler):
    """Answers one request, with headers that keep other pages from the answer."""

    timeout = SLOWEST
    server_version, sys_version = "fedloom", ""

    def security_policy(self) -> str:
        """The content security policy of the page."""
        raise NotImplementedError

    def send_text(
        self, code: HTTPStatus, text: str, kind: str = "text/plain; charset=utf-8", more: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send an answer.

        Args:
            text: Its content.
            kind: The type of the content.
            more: More headers.
        """
        content = text.encode("utf-8", "replace")
        self.send_head(code, kind, (("Content-Length", str(len(content))), *more))
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_head(self, code: HTTPStatus, kind: str, more: Iterable[tuple[str, str]] = ()) -> None:
        """Send the headers of an answer."""
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind),
            *more,
            ("Content-Security-Policy", self.security_policy()),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


def is_own_connection(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a connection on this machine is known to be of this process's user, or of root.

    Args:
        client: The address and port that it comes from.
        server: The address and port that it came to.
    """
    return user_of_connection(client, server) in (0, os.getuid())


def refuse_unknown_visitors(place: Path) -> None:
    """Refuse to serve a page about something private where the system does not say whose a connection is.

    Args:
        place: What the page is about: a folder or a file.
    """
    if not (CONNECTIONS / "tcp").exists() and not is_readable_by_all(place):
        raise FedloomError(
            f"this system does not say whose a connection is (it has no {CONNECTIONS / 'tcp'}), so every user of this "
            f"machine could see {place}, which not everybody may read: let all read it, or serve the page on Linux."
        )


def is_readable_by_all(place: Path) -> bool:
    """Whether every user of this machine may read a folder or a file: by its mode, and through all folders above it."""
    place = place.resolve()
    needed = stat.S_IROTH | (stat.S_IXOTH if place.is_dir() else 0)
    passable = all(above.stat().st_mode & stat.S_IXOTH for above in place.parents)
    return passable and place.stat().st_mode & needed == needed


def user_of_connection(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user whose process made a connection on this machine; None if the system does not say.

    Args:
        client: The address and port that it comes from.
        server: The address and port that it came to.
    """
    mine, theirs = _kernel_address(*client), _kernel_address(*server)
    for table in ("tcp", "tcp6"):
        try:
            lines = (CONNECTIONS / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, _, _, _, _, user, *_ = line.split()
            if (local, remote) == (mine, theirs):
                return int(user)
    return None


def _kernel_address(address: str, port: int) -> str:
    """An address as ``/proc/net/tcp`` writes it: words of four bytes in the machine's order, then the port."""
    packed = ipaddress.ip_address(address.partition("%")[0]).packed
    words = (int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _port_sentence(address: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use: end the program that uses it, or choose another with --port (0 finds a free one)."
        )
    reason = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
    return f"port {port} of {address} cannot be used ({reason}): choose another with --port."
