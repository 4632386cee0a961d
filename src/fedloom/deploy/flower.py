"""All contact with Flower: its programs, its messages, and the two things that we change in its SuperNode.

Flower 1.41's SuperLink and SuperNodes carry bytes; their format is ours (``protocol/wire.py``). Nothing else in Fedloom
imports flwr, and tests/deploy/test_flower.py tests what we rely on, so a new release can break this file only.

* A SuperNode runs with ``isolation=process``: it starts no Python process per call. The site's own process takes
  messages from the SuperNode's runtime API on a loopback port (``SiteTransport``) with Flower's own client. The app
  bundle that Flower sends to nodes is never unpacked or run at a site.
* Our launcher makes the SuperNode present a client certificate, which Flower has no option for, and look for messages
  every tenth of a second instead of every three seconds.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from fedloom.core.errors import FedloomError
from fedloom.deploy.server_clock import ServerClock, request_time

log = logging.getLogger("fedloom")
VERSION = "1.41.0"
LINK = "link"
"""The name of the SuperLink in Flower's own configuration."""
POLL, SLOWEST = 0.1, 1.0
"""Seconds between two polls for messages: the shortest, and the longest, after a time without messages."""
BACKOFF: dict[str, Any] = {"initial_backoff": 0.02, "backoff_cap": 1.0}
"""Seconds before a missing part of a message is requested again: the first time, and at most."""
ARRIVING = 30.0
"""Seconds in which all parts of a message must reach a site. Flower's own limit is two hours; a SuperNode would spend
them waiting for the rest of a message whose server died."""
PIECES = 8
"""Most parts of an answer as Flower stores it; ours have three."""
HEARTBEAT = 10
"""Seconds between a node's heartbeats; after two missing ones it counts as disconnected. Flower's default is 30."""
IDLE = 3
"""Seconds that Flower's SuperNode sleeps when it finds no message."""
NODE_READY, NODE_RETRIES, NODE_FAILED = "SuperNode ID:", "Connection attempt failed", "Exit Code:"
"""The SuperNode's output when it is connected, when it retries to connect, and when it gives up."""
_RECORD = "fedloom"


def check_flower() -> None:
    """Raise an error if Flower is missing or has another version than the one this adapter was written for."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise FedloomError("deployment needs Flower, which is not installed: pip install 'fedloom[deploy]'.") from None
    if found != VERSION:
        raise FedloomError(f"deployment needs Flower {VERSION}, but {found} is installed: pip install flwr=={VERSION}.")


# -- Flower's programs


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's programs: files below ``home``, no telemetry, programs of this Python."""
    programs = str(Path(sys.executable).parent)
    return os.environ | {
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(POLL),
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise FedloomError(f"Flower's program {name} was not found: pip install 'fedloom[deploy]'.")
    return found


def superlink_command(folder: Path, port: int) -> list[str]:
    """The SuperLink's command: TLS, authenticated nodes, loopback only, nothing installed at run time.

    Its state is in memory: a file would cost more than half a second per round, and Fedloom itself stores what must
    survive (checkpoints, the sites' states). After a restart the sites are registered again and their nodes reconnect.
    """
    return [
        _program("flower-superlink"), "--host", "127.0.0.1", "--port", str(port),
        "--ssl-ca-certfile", str(folder / "ca.crt"), "--ssl-certfile", str(folder / "server.pem"),
        "--ssl-keyfile", str(folder / "server.key"),
        "--enable-supernode-auth", "--disable-runtime-dependency-installation",
    ]  # fmt: skip


def supernode_command(folder: Path, server: str, port: int) -> list[str]:
    """The SuperNode's command, which starts ``run_supernode`` below."""
    return [
        sys.executable, "-m", "fedloom.deploy.flower", str(folder / "client.pem"), str(folder / "client.key"),
        "--root-certificates", str(folder / "ca.crt"), "--superlink", server, "--host", "127.0.0.1",
        "--port", str(port), "--isolation", "process", "--auth-supernode-private-key", str(folder / "node.key"),
    ]  # fmt: skip


def write_connection(home: Path, port: int, authority: Path) -> None:
    """Write the file from which Flower's command line knows the SuperLink's address."""
    home.mkdir(parents=True, exist_ok=True)
    text = f'[superlink]\ndefault = "{LINK}"\n\n[superlink.{LINK}]\naddress = "127.0.0.1:{port}"\n'
    (home / "config.toml").write_text(f'{text}root-certificates = "{authority.resolve()}"\n')


def write_app(home: Path, folder: Path) -> Path:
    """Write the Flower app of a run, which only imports our server and client apps; its folder."""
    app = home / "app"
    (app / "fedloom_app").mkdir(parents=True, exist_ok=True)
    (app / "fedloom_app" / "__init__.py").write_text("")
    (app / "fedloom_app" / "server.py").write_text(
        "from fedloom.deploy.flower import server_app\n\napp = server_app()\n"
    )
    (app / "fedloom_app" / "client.py").write_text(
        "from fedloom.deploy.flower import client_app\n\napp = client_app()\n"
    )
    (app / "pyproject.toml").write_text(
        '[project]\nname = "fedloom-app"\nversion = "1.0.0"\ndescription = "A Fedloom run"\nlicense = "Apache-2.0"\n'
        f'dependencies = ["flwr=={VERSION}"]\n\n[tool.flwr.app]\npublisher = "fedloom"\n\n'
        '[tool.flwr.app.components]\nserverapp = "fedloom_app.server:app"\nclientapp = "fedloom_app.client:app"\n\n'
        f"[tool.flwr.app.config]\nfolder = '{folder.resolve()}'\n"
    )
    return app


def run_command(app: Path) -> list[str]:
    """The command that submits a run."""
    return [_program("flwr"), "run", str(app), LINK]


def run_id(output: str) -> str | None:
    """The run's number in the output of ``run_command``; None if no run was started."""
    _, found, rest = output.partition("Successfully started run ")
    return rest.split()[0] if found else None


class SuperLinkControl:
    """The SuperLink's control API, for this machine only: register nodes, list nodes, stop a run."""

    def __init__(self, port: int, authority: Path) -> None:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        passes = [RuntimeVersionHttpInterceptor(component_name="flwr CLI")]
        self.client = ControlHttpClient.from_server_address(f"127.0.0.1:{port}", False, str(authority), passes)

    def register(self, key: bytes) -> None:
        """Admit the node with this public key."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        self.client.RegisterNode(RegisterNodeRequest(public_key=key))

    def unregister(self, node: int) -> None:
        """Remove a node: its calls are refused from now on."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        self.client.UnregisterNode(UnregisterNodeRequest(node_id=node))

    def nodes(self) -> list[NodeInfo]:
        """All registered nodes."""
        from flwr.proto.control_pb2 import ListNodesRequest

        return _nodes(self.client.ListNodes(ListNodesRequest()).nodes_info)

    def stop(self, run_id: str) -> None:
        """Stop a run."""
        from flwr.proto.control_pb2 import StopRunRequest

        self.client.StopRun(StopRunRequest(run_id=int(run_id)))


def connection_errors() -> tuple[type[Exception], ...]:
    """The exceptions of Flower's clients when the other side is unreachable or refuses."""
    import httpx

    return (httpx.HTTPError, OSError)


# -- the server's side


@dataclass(frozen=True)
class NodeInfo:
    """A registered node: its public key, whether it is connected, since when, and when it was last heard of (seconds
    since 1970; 0 for never)."""

    number: int
    key: bytes
    online: bool
    since: float
    seen: float = 0.0


@dataclass(frozen=True)
class ReceivedMessage:
    """An answer: the id of the message it replies to, its sender, and its bytes or an error."""

    reply_to: str
    node: int
    data: bytes = b""
    error: str = ""
    unreadable: str = ""
    """Why it cannot be read as a message."""


class ServerTransport:
    """Sends messages to nodes and fetches their answers, for the server's half of a run."""

    limit = 1 << 30
    """Most bytes of an answer."""

    def __init__(self, grid: Any) -> None:
        self.grid = grid

    def nodes(self) -> list[NodeInfo]:
        """All registered nodes."""
        return _nodes(self.grid.get_nodes())

    def send(self, messages: Mapping[int, bytes], seconds: float, group: str) -> dict[int, str]:
        """Send each node its bytes; the messages' ids by node.

        Args:
            messages: Bytes by node number.
            seconds: The time after which a message expires.
            group: Flower's group id of the messages.
        """
        from flwr.app import Message

        sent: dict[int, str] = {}
        for node, data in messages.items():
            message = Message(_record(data), node, "train", ttl=seconds, group_id=group)
            names = [name for name in self.grid.push_messages([message]) if name]
            sent |= dict.fromkeys([node], names[0]) if names else {}
        return sent

    def fetch(self, names: Collection[str], seconds: float) -> list[ReceivedMessage]:
        """The answers that have arrived to some messages.

        Each is fetched by itself, so that a broken one does not affect the others, and at most ``limit`` bytes of it.

        Args:
            names: Ids of the messages.
            seconds: How long to wait for an answer that is still arriving.
        """
        from flwr.supercore.inflatable import inflatable_utils
        from flwr.superlink.grid import http_grid

        refused: list[str] = []

        def refuse(piece: str, why: str) -> NoReturn:
            refused.append(why)
            raise inflatable_utils.ObjectPullError(piece, why)

        def pull_objects(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
            room = [self.limit]

            def pull_bounded(piece: str) -> bytes:
                data = pull_object_fn(piece)
                room[0] -= len(data)
                return data if room[0] >= 0 else refuse(piece, f"the message has more than {self.limit:,} bytes")

            if len(object_ids) > PIECES:
                refuse(object_ids[0], f"the message has {len(object_ids):,} parts, and at most {PIECES} are allowed")
            return inflatable_utils.pull_objects(object_ids, pull_bounded, max_time=seconds, **BACKOFF)

        _replace(http_grid, "pull_objects", pull_objects)
        replies: list[ReceivedMessage] = []
        for name in names:
            refused.clear()
            try:
                found = [_received_message(name, message) for message in self.grid.pull_messages([name])]
                replies += [replace(reply, unreadable=refused[0]) for reply in found] if refused else found
            except connection_errors():
                raise
            except Exception as why:  # Flower may raise anything on a malformed message
                log.warning("a message cannot be read (%s)", type(why).__name__)
                replies.append(ReceivedMessage(name, 0, unreadable="the message cannot be read"))
        return replies


def _record(data: bytes) -> Any:
    """Bytes as a record that Flower passes on unchanged. (An array would have two more parts to store and fetch.)"""
    from flwr.app import ConfigRecord, RecordDict

    return RecordDict({_RECORD: ConfigRecord({_RECORD: data})})


def _data(message: Any) -> bytes:
    try:
        data = message.content[_RECORD][_RECORD]
        return data if isinstance(data, bytes) else b""
    except (KeyError, TypeError, AttributeError):
        return b""


def _received_message(name: str, message: Any) -> ReceivedMessage:
    about = message.metadata
    if message.has_error():
        return ReceivedMessage(name, about.src_node_id, error=str(message.error.reason)[:300])
    return ReceivedMessage(name, about.src_node_id, _data(message))


def _nodes(known: Iterable[Any]) -> list[NodeInfo]:
    return [
        NodeInfo(n.node_id, bytes(n.public_key), n.status == "online", _seconds(n.last_activated_at), _last_heard(n))
        for n in known
    ]


def _last_heard(node: Any) -> float:
    """The time of a node's last heartbeat, from the time until which it counts as connected."""
    from flwr.common.constant import HEARTBEAT_PATIENCE

    if node.status != "online":
        return _seconds(node.last_deactivated_at)
    return float(node.online_until - HEARTBEAT_PATIENCE * node.heartbeat_interval)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0


def server_app() -> Any:
    """Flower's ServerApp that runs our round loop."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        from fedloom.deploy.server.serve import serve

        serve(ServerTransport(grid), Path(str(context.run_config["folder"])))

    return app


def client_app() -> Any:
    """The ClientApp that Flower's app format requires; sites answer in their own process and never run it."""
    from flwr.clientapp import ClientApp

    return ClientApp()


def public_key(public: Path) -> bytes:
    """The public key in a site's file, in the format in which the SuperLink lists it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

    try:
        key = load_ssh_public_key(public.read_bytes())
    except (OSError, ValueError):
        raise FedloomError(f"{public} is not the public key of a site: copy it again.") from None
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


# -- the site's side


class PollDelay:
    """Delays between polls that grow while nothing happens, so that an idle deployment costs little."""

    def __init__(self, shortest: float = POLL, longest: float = SLOWEST) -> None:
        self.shortest = self.next = shortest
        self.longest = longest

    def sleep(self) -> None:
        """Sleep a little longer than the last time."""
        time.sleep(self.next)
        self.next = min(self.next * 1.05, self.longest)

    def reset(self) -> None:
        """Return to the shortest delay."""
        self.next = self.shortest


class SiteTransport:
    """Takes the messages for a site one by one from its SuperNode's runtime API, and answers them."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.client = self._client("SuperExec")

    def _client(self, name: str, *more: Any) -> Any:
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        passes = [RuntimeVersionHttpInterceptor(component_name=name), *more]
        return RuntimeHttpClient.from_server_address(self.address, True, None, passes)

    def serve(self, answer: Callable[[bytes], bytes], ready: Callable[[], None] = lambda: None) -> None:
        """Answer messages until the process ends; wait for the SuperNode whenever it is unreachable.

        Args:
            answer: Makes the answer to a message.
            ready: Called after each successful poll.
        """
        import httpx
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

        delay = PollDelay(POLL / 2, 2 * POLL)  # the SuperNode is on this machine
        while True:
            try:
                task = self.client.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]))
                ready()
                if task.token:
                    self._work(task.token, answer)
                    delay.reset()
                    continue
            except (
                httpx.HTTPError,
                ObjectPullError,
                RuntimeError,
            ):  # unreachable, or part of a message of an ended run
                time.sleep(POLL)
            delay.sleep()

    def _work(self, token: str, answer: Callable[[bytes], bytes]) -> None:
        from flwr.app import Message
        from flwr.app.message import message as flower_message
        from flwr.common.constant import SubStatus
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
        from flwr.supercore.inflatable import inflatable_utils
        from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
        from flwr.supernode.runtime import run_clientapp as flower

        inflate = inflatable_utils.pull_and_inflate_object_from_tree
        inflate_in_time = functools.partial(inflate, max_time=ARRIVING, **BACKOFF)
        _replace(flower, "pull_and_inflate_object_from_tree", inflate_in_time)
        client = self._client("flwr-clientapp", RuntimeTokenHttpInterceptor(token))
        alive = HeartbeatSender(make_task_heartbeat_fn_http(client))
        alive.start()
        try:
            message, context, _, _ = flower.pull_task_input(client)
            _replace(flower_message, "now", lambda: request_time(message))
            flower.push_message(client, Message(_record(answer(_data(message))), reply_to=message), context)
            flower.push_task_output(client, context, SubStatus.COMPLETED, "")
        finally:
            alive.stop()
            client.close()


def run_supernode(certificate: str, key: str, arguments: Sequence[str]) -> None:
    """Run Flower's SuperNode with a client certificate, shorter waits and a faster heartbeat."""
    import httpx
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.supercore import heartbeat
    from flwr.supercore.date import now
    from flwr.supercore.inflatable import inflatable_utils
    from flwr.supercore.run import RunNotRunningException
    from flwr.supernode import fleet_http_connection, node_auth_http_interceptor, start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode
    from flwr.supernode.fleet_http_client import FleetHttpClient

    class Certified(FleetHttpClient):
        def __init__(self, base_url: str, *, verify: Any = True, **rest: Any) -> None:
            context = verify
            if not isinstance(verify, ssl.SSLContext):
                context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
            context.load_cert_chain(certificate, key)
            super().__init__(base_url, verify=context, **rest)
            self._client.event_hooks = {"response": [clock.learn]}

        def ActivateNode(self, request: Any) -> Any:  # noqa: N802
            """Connect; first disconnect a node that was killed and that the SuperLink still takes for connected."""
            ahead = clock.ahead
            try:
                answer = super().ActivateNode(request)
            except httpx.HTTPStatusError:
                if clock.ahead != ahead:  # it was signed with a time that the server does not accept
                    return self.ActivateNode(request)
                if not known.is_file():
                    raise
                with contextlib.suppress(ValueError, httpx.HTTPError):
                    super().DeactivateNode(DeactivateNodeRequest(node_id=int(known.read_text())))
                known.unlink()
                answer = super().ActivateNode(request)
            with contextlib.suppress(OSError):  # without the file it only reconnects more slowly
                known.write_text(str(answer.node_id))
            return answer

    clock = ServerClock(now)
    known = Path(key).parent / "flower" / "node"
    known.parent.mkdir(exist_ok=True)
    delay = PollDelay()

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

    _replace(fleet_http_connection, "FleetHttpClient", Certified)
    _replace(node_auth_http_interceptor, "now", clock.now)
    for module in (fleet_http_connection, heartbeat):
        _replace(module, "HEARTBEAT_DEFAULT_INTERVAL", HEARTBEAT)
    _replace(start_client_internal, "time", SimpleNamespace(sleep=short_sleep))
    _replace(start_client_internal, "pull_objects", pull_objects)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


def _replace(module: Any, name: str, by: Any) -> None:
    """Replace an attribute of one of Flower's modules."""
    if not hasattr(module, name):
        raise FedloomError(f"Flower's {module.__name__} has no {name}: pip install flwr=={VERSION}.")
    setattr(module, name, by)


if __name__ == "__main__":
    run_supernode(sys.argv[1], sys.argv[2], sys.argv[3:])
