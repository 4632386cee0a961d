"""The SuperLink's door: everything over its socket, and on its port only calls of nodes that came through the proxy."""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.deploy.flower import superlink
from fedloom.deploy.provision.proxy import SECRET_HEADER

SOCKET, PORT = ("/folder/flower/superlink.sock", None), ("127.0.0.1", 8000)
KNOWN = "what the proxy knows"
PROXY = [(SECRET_HEADER.lower().encode(), KNOWN.encode())]


def status(server: Any, path: str, headers: Any = (), secret: str | None = KNOWN, kind: str = "http") -> int:
    """What a call is answered with; 200 is the SuperLink's own answer."""
    answered: list[int] = []

    async def app(*_: Any) -> None:
        answered.append(200)

    async def send(event: Any) -> None:
        answered.append(event.get("status", event.get("code", 0)))

    async def receive() -> Any:
        raise AssertionError("a call that is not allowed is not read")

    scope = {"type": kind, "server": server, "path": path, "headers": list(headers)}
    asyncio.run(superlink.NodeCallsOnly(app, secret)(scope, receive, send))
    return answered[0]


@pytest.mark.parametrize("path", ["/v1/control/start-run", "/v1/runtime/acquire-task", "/v1/fleet/pull-messages"])
def test_over_the_socket_everything_is_answered(path: str) -> None:
    assert status(SOCKET, path) == 200


@pytest.mark.parametrize(
    "path",
    ["/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task", "/v1/runtime/push-messages", "/",
     "/docs", "/health", "/v1/fleet/register-node", "/v1/fleet/unregister-node", "/v1/fleet", "/v1/fleet/../control/x",
     "//v1/fleet/pull-messages", "/v1/fleet/register-node/", "/v1/fleet/register-node\n"],
)  # fmt: skip
def test_over_the_port_nothing_but_calls_of_nodes_is_answered(path: str) -> None:
    assert status(PORT, path, PROXY) == 403
    assert status(PORT, path, secret=None) == 403
    assert status(None, path, PROXY) == 403  # a server that does not know how it was reached trusts nobody


def test_behind_the_proxy_a_node_must_have_come_through_it() -> None:
    assert status(PORT, "/v1/fleet/pull-messages", PROXY) == 200
    assert status(PORT, "/v1/fleet/pull-messages") == 403
    assert status(PORT, "/v1/fleet/pull-messages", [(PROXY[0][0], b"guess")]) == 403
    assert status(PORT, "/v1/fleet/pull-messages", secret=None) == 200


def test_a_websocket_is_closed() -> None:
    assert status(PORT, "/v1/fleet/pull-messages", PROXY, kind="websocket") == 1008


def test_the_programs_know_the_options_we_start_them_with(tmp_path: Path) -> None:
    parser = import_module("flwr.superlink.cli.flower_superlink")._parse_args_run_superlink()
    parsed = parser.parse_args(superlink.superlink_arguments(tmp_path))
    assert (parsed.isolation, parsed.enable_supernode_auth, parsed.runtime_dependency_install) == (
        "process", True, False
    )  # fmt: skip
    assert superlink.superlink_command(tmp_path)[1:] == ["-P", "-m", "fedloom.deploy.flower.superlink", str(tmp_path)]


def test_the_superlink_is_served_by_the_function_that_we_replace() -> None:
    source = inspect.getsource(import_module("flwr.superlink.cli.flower_superlink"))
    assert "    uvicorn.run(\n        app=fastapi_app," in source
    assert source.count("uvicorn.") == 1
