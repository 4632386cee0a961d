"""The Unix sockets by which a participant's own programs talk to each other.

Flower's SuperLink and SuperNode answer everyone who reaches them: who reaches the control API submits code that the
server runs, and who reaches a site's runtime API reads the model and answers in the site's name. A port of the machine
is reached by all of its users. So these APIs are on sockets in a folder that only the participant's user can enter.
"""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import FLOWER, make_private

LINK_SOCKET, NODE_SOCKET = f"{FLOWER}/superlink.sock", f"{FLOWER}/supernode.sock"
"""The sockets of the SuperLink and of a SuperNode, in a participant's folder."""
HOST = "localhost"
"""The name in addresses over a socket, which the server's certificate has."""
PIECE = 1 << 17
"""Bytes that are given to a socket at once. A Unix socket takes about 200 kB, and httpcore copies what is left of a
body after each send: given all of 100 MB, it copies 25 GB."""
_LONGEST = 100
"""Bytes of a path that every system takes as the address of a socket."""


def listen(path: Path) -> socket.socket:
    """A socket at a path, in a folder that only this user can enter."""
    make_private(path.parent)
    path.unlink(missing_ok=True)  # of a program that was killed
    found = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        found.bind(address(path))
    except OSError as why:
        found.close()
        raise FedloomError(f"{path} cannot be made ({why.strerror or why}): move the folder to a local disk.") from None
    finally:
        os.umask(before)
    return found


@functools.cache
def address(path: Path) -> str:
    """The address of a socket; one of a long path names its folder by a file descriptor that stays open."""
    if len(os.fsencode(path)) <= _LONGEST:
        return str(path)
    if not Path("/proc/self/fd").is_dir():
        raise FedloomError(f"{path} is too long for a socket: move the folder to a path of fewer characters.")
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    return f"/proc/self/fd/{folder}/{path.name}"


def client_class(kind: type[Any], path: Path) -> type[Any]:
    """A class of Flower's clients whose connections go to a socket, whatever address they are made with."""
    import httpx

    class Pieces(httpx.SyncByteStream):
        def __init__(self, content: bytes) -> None:
            self.content = content

        def __iter__(self) -> Iterator[bytes]:
            for begin in range(0, len(self.content), PIECE):
                yield self.content[begin : begin + PIECE]

    class PieceTransport(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            """Send a request, its body in pieces."""
            request.stream = Pieces(request.read())
            return super().handle_request(request)

    class SocketClient(kind):  # type: ignore[misc]
        def __init__(self, base_url: str, *, verify: Any = True, **rest: Any) -> None:
            super().__init__(base_url, verify=verify, **rest)
            usual: httpx.Client = vars(self)["_client"]
            usual.close()
            transport = PieceTransport(verify=verify, uds=address(path), trust_env=False)
            self._client = httpx.Client(transport=transport, timeout=usual.timeout, trust_env=False)

    return SocketClient


def connection_errors() -> tuple[type[Exception], ...]:
    """The exceptions of Flower's clients when the other side is unreachable or refuses."""
    import httpx

    return (httpx.HTTPError, OSError)
