"""Flower's SuperNode as a site runs it.

Our launcher makes it present a client certificate, which Flower has no option for, look for messages every tenth of a
second instead of every three seconds, send a faster heartbeat, and answer the site's process on a Unix socket.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fedloom.deploy.flower.local_socket import NODE_SOCKET, listen
from fedloom.deploy.flower.node_state import node_state_class
from fedloom.deploy.flower.polling import ARRIVING, BACKOFF, POLL, PollDelay
from fedloom.deploy.flower.push_retry import RenewedSession
from fedloom.deploy.flower.release import replace_attribute
from fedloom.deploy.flower.server_clock import ServerClock
from fedloom.deploy.participant_folder import FLOWER
from fedloom.deploy.settings import load_site

HEARTBEAT = 10
"""Seconds between a node's heartbeats; after two missing ones it counts as disconnected. Flower's default is 30."""
RETRY = 3
"""Seconds at most between two attempts to reach a server that does not answer. Flower's default is 20: sites would be
away for so long after a server that restarted."""
IDLE = 3
"""Seconds that Flower's SuperNode sleeps when it finds no message."""
NODE_READY, NODE_RETRIES, NODE_FAILED = "SuperNode ID:", "Connection attempt failed", "Exit Code:"
"""The SuperNode's output when it is connected, when it retries to connect, and when it gives up."""


def supernode_command(folder: Path) -> list[str]:
    """The command that starts ``run_supernode`` for a site's folder."""
    return [sys.executable, "-P", "-m", "fedloom.deploy.flower.supernode", str(folder)]


def supernode_arguments(folder: Path, server: str) -> list[str]:
    """The SuperNode's own arguments."""
    return [
        "--root-certificates", str(folder / "ca.crt"), "--superlink", server,
        "--isolation", "process", "--auth-supernode-private-key", str(folder / "node.key"),
    ]  # fmt: skip


def run_supernode(folder: Path) -> None:
    """Run Flower's SuperNode for a site's folder."""
    import httpx
    import uvicorn
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.supercore import heartbeat
    from flwr.supercore.date import now
    from flwr.supercore.inflatable import inflatable_utils
    from flwr.supercore.retry import http_retry
    from flwr.supercore.run import RunNotRunningException
    from flwr.supernode import fleet_http_connection, node_auth_http_interceptor, start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.nodestate import nodestate_factory

    class CertifiedClient(FleetHttpClient):
        def __init__(self, base_url: str, *, verify: Any = True, **rest: Any) -> None:
            context = verify
            if not isinstance(verify, ssl.SSLContext):
                context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
            context.load_cert_chain(folder / "client.pem", folder / "client.key")
            super().__init__(base_url, verify=context, **rest)
            self._client.event_hooks = {"response": [clock.learn]}

        def ActivateNode(self, request: Any) -> Any:  # noqa: N802
            """Connect; first disconnect a node that was killed and that the SuperLink still takes for connected."""
            try:
                answer = clock.retry(partial(super().ActivateNode, request), httpx.HTTPStatusError)
            except httpx.HTTPStatusError:
                if not known.is_file():
                    raise
                with contextlib.suppress(ValueError, httpx.HTTPError):
                    super().DeactivateNode(DeactivateNodeRequest(node_id=int(known.read_text())))
                known.unlink()
                answer = super().ActivateNode(request)
            with contextlib.suppress(OSError):  # without the file it only reconnects more slowly
                known.write_text(str(answer.node_id))
            return answer

    class LocalServer(uvicorn.Server):
        def run(self, sockets: list[socket.socket] | None = None) -> None:
            super().run([own])

    clock = ServerClock(now)
    own, known, delay = listen(folder / NODE_SOCKET), folder / FLOWER / "node", PollDelay()

    def short_sleep(seconds: float) -> None:
        if seconds < IDLE:  # it waits for the site's answer
            delay.reset()
            time.sleep(min(seconds, POLL / 2))
        else:  # there was no message
            delay.sleep()

    def pull_objects(names: list[str], pull_object_fn: Any) -> dict[str, bytes]:
        try:
            return inflatable_utils.pull_objects(names, pull_object_fn, max_time=ARRIVING, **BACKOFF)
        except RunNotRunningException:
            # with Flower's own exception half a message would stay, and the site would wait for the rest for ever
            raise RuntimeError("its run has ended") from None

    push_messages = start_client_internal._push_messages

    def push_again(state: Any, object_store: Any, send: Any, push_object: Any) -> None:
        session = RenewedSession(send, push_object)
        push_messages(state=state, object_store=object_store, send=session.send, push_object=session.push_object)

    module = sys.modules[flower_supernode.__module__]
    replace_attribute(module, "uvicorn", SimpleNamespace(Config=uvicorn.Config, Server=LocalServer))
    replace_attribute(fleet_http_connection, "FleetHttpClient", CertifiedClient)
    replace_attribute(node_auth_http_interceptor, "now", clock.now)
    replace_attribute(nodestate_factory, "InMemoryNodeState", node_state_class())
    for module in (fleet_http_connection, heartbeat):
        replace_attribute(module, "HEARTBEAT_DEFAULT_INTERVAL", HEARTBEAT)
    replace_attribute(http_retry, "MAX_RETRY_DELAY", RETRY)
    replace_attribute(start_client_internal, "time", SimpleNamespace(sleep=short_sleep))
    replace_attribute(start_client_internal, "pull_objects", pull_objects)
    replace_attribute(start_client_internal, "_push_messages", push_again)
    sys.argv = ["flower-supernode", *supernode_arguments(folder, load_site(folder).server)]
    flower_supernode()


if __name__ == "__main__":
    run_supernode(Path(sys.argv[1]))
