"""Flower's SuperLink with our door: everything on a Unix socket of its owner, and on a port only the calls of nodes.

Whoever reaches the SuperLink's control API can submit code that the server runs, and whoever reaches its runtime API
can play a run's server; Flower asks neither for a key. Nodes' calls are signed with the keys of registered nodes.
Behind the proxy they must also have come through it: it knows a secret that nobody else on the machine does.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import ssl
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from fedloom.core.errors import FedloomError
from fedloom.deploy.flower.bounded_state import link_state_class, only_own_answers
from fedloom.deploy.flower.local_socket import LINK_SOCKET, listen
from fedloom.deploy.flower.release import replace_attribute
from fedloom.deploy.flower.server_half import start_server_halves
from fedloom.deploy.provision.proxy import SECRET_HEADER, proxy_secret
from fedloom.deploy.settings import load_server

NODE_CALLS = re.compile(r"/v1/fleet/[a-z-]+")
OPERATORS_CALLS = frozenset({"/v1/fleet/register-node", "/v1/fleet/unregister-node"})
"""Only the operator registers and removes nodes."""
CERTIFICATE_CHECK = 1.0
"""Seconds between two looks at the server's certificate, which may have been renewed."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class NodeCallsOnly:
    """An ASGI app that passes on to another one what came over a Unix socket, and of the rest only calls of nodes.

    Args:
        app: The app that gets them.
        secret: What the proxy adds to each call; None if there is no proxy.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], secret: str | None) -> None:
        self.app, self.secret = app, None if secret is None else secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on, or answer that it is not allowed."""
        if scope["type"] == "lifespan" or self.is_allowed(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def is_allowed(self, scope: Scope) -> bool:
        """Whether a call came over the socket, or is a node's."""
        server = scope.get("server")
        if server is not None and server[1] is None:  # a path has no port
            return True
        if scope["type"] != "http" or not NODE_CALLS.fullmatch(scope["path"]) or scope["path"] in OPERATORS_CALLS:
            return False
        given = dict(scope["headers"]).get(SECRET_HEADER.lower().encode(), b"")
        return self.secret is None or secrets.compare_digest(given, self.secret)


def superlink_command(folder: Path) -> list[str]:
    """The command that starts ``run_superlink`` for a server's folder."""
    return [sys.executable, "-P", "-m", "fedloom.deploy.flower.superlink", str(folder)]


def superlink_arguments(folder: Path) -> list[str]:
    """The SuperLink's own arguments: TLS, authenticated nodes, nothing started by it and nothing installed.

    Its state is in memory: a file would cost more than half a second per round, and Fedloom itself stores what must
    survive (checkpoints, the sites' states). After a restart the sites are registered again and their nodes reconnect.
    """
    return [
        "--ssl-ca-certfile", str(folder / "ca.crt"), "--ssl-certfile", str(folder / "server.pem"),
        "--ssl-keyfile", str(folder / "server.key"), "--isolation", "process",
        "--enable-supernode-auth", "--disable-runtime-dependency-installation",
    ]  # fmt: skip


def run_superlink(folder: Path) -> None:
    """Run Flower's SuperLink for a server's folder, and start the server half of each run that is submitted."""
    import uvicorn
    from flwr.server.superlink.linkstate import linkstate_factory
    from flwr.superlink.cli import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers

    settings = load_server(folder)
    most = int(settings.max_waiting * settings.max_megabytes * 1e6)
    replace_attribute(linkstate_factory, "InMemoryLinkState", link_state_class(most))
    replace_attribute(fleet_handlers, "push_messages", only_own_answers(fleet_handlers.push_messages))
    own, port = listen(folder / LINK_SOCKET), _bind_port(settings.link_host, settings.link_port)
    secret = proxy_secret(folder) if settings.proxy else None

    def serve(app: Any, **options: Any) -> None:
        config = uvicorn.Config(NodeCallsOnly(app, secret), **{**options, "access_log": False})
        config.load()
        threading.Thread(target=follow_certificate, args=(config.ssl, folder), daemon=True).start()
        uvicorn.Server(config).run([own, port])

    module = sys.modules[flower_superlink.__module__]
    replace_attribute(module, "uvicorn", SimpleNamespace(run=serve))
    threading.Thread(target=start_server_halves, args=(folder,), daemon=True).start()
    sys.argv = ["flower-superlink", *superlink_arguments(folder)]
    flower_superlink()


def follow_certificate(context: ssl.SSLContext, folder: Path) -> NoReturn:
    """Use a renewed certificate of the server for new connections, without a stop."""
    pair = (folder / "server.pem", folder / "server.key")
    used = pair[0].stat().st_mtime_ns
    while True:
        time.sleep(CERTIFICATE_CHECK)
        with contextlib.suppress(OSError, ssl.SSLError):  # it may be half written: the next look finds it
            found = pair[0].stat().st_mtime_ns
            if found != used:
                context.load_cert_chain(*pair)
                used = found


def _bind_port(host: str, number: int) -> socket.socket:
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, number))
    except OSError as why:
        raise FedloomError(f"port {number} of this machine cannot be used ({why.strerror}).") from None
    return found


if __name__ == "__main__":
    run_superlink(Path(sys.argv[1]))
