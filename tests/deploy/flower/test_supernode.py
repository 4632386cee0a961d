"""The SuperNode: what its launcher relies on. The next release of Flower breaks these tests first."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.deploy.flower import supernode
from fedloom.deploy.flower.polling import BACKOFF


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_a_supernode_sleeps_where_we_think_it_does_and_asks_for_what_we_give() -> None:
    from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree, pull_objects
    from flwr.supernode import fleet_http_connection, start_client_internal

    source = inspect.getsource(start_client_internal)
    assert f"time.sleep({supernode.IDLE})" in source
    assert set(re.findall(r"\btime\.(\w+)", source)) == {"sleep"}  # nothing else of the module is used
    assert "pull_objects(" in source
    assert "FleetHttpClient.from_server_address(" in inspect.getsource(fleet_http_connection)
    for pull in (pull_objects, pull_and_inflate_object_from_tree):
        assert {"max_time", *BACKOFF} <= parameters(pull)


def test_the_supernode_knows_the_options_we_start_it_with(tmp_path: Path) -> None:
    node = import_module("flwr.supernode.cli.flower_supernode")
    parsed = node._parse_args_run_supernode().parse_args(supernode.supernode_arguments(tmp_path, "host:1"))
    assert (parsed.isolation, parsed.superlink) == ("process", "host:1")
    assert parsed.auth_supernode_private_key == str(tmp_path / "node.key")


def test_the_supernode_makes_its_local_server_as_we_replace_it() -> None:
    source = inspect.getsource(import_module("flwr.supernode.cli.flower_supernode"))
    assert "uvicorn.Server(\n        uvicorn.Config(" in source
    assert "target=server.run" in source


def test_nothing_on_a_supernodes_command_line_is_secret(tmp_path: Path) -> None:
    assert supernode.supernode_command(tmp_path)[1:] == ["-P", "-m", "fedloom.deploy.flower.supernode", str(tmp_path)]


def test_a_server_that_is_back_is_found_within_seconds() -> None:
    http_retry = import_module("flwr.supercore.retry.http_retry")
    assert "exponential(max_delay=MAX_RETRY_DELAY)" in inspect.getsource(http_retry.make_simple_http_retry_invoker)
    assert supernode.RETRY < http_retry.MAX_RETRY_DELAY
