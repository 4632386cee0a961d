"""The SuperLink's control API and the app of a run: what we rely on."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: the contract with it is not checked")

from fedloom.deploy.flower import control
from fedloom.deploy.provision.private_keys import make_node_key


def parameters(function: object) -> set[str]:
    return set(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_flowers_clients_take_what_we_give_them() -> None:
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supernode.fleet_http_client import FleetHttpClient

    for client in (ControlHttpClient, RuntimeHttpClient, FleetHttpClient):
        assert parameters(client.from_server_address) >= {
            "server_address", "insecure", "root_certificates", "interceptors"
        }  # fmt: skip
    assert {"base_url", "verify"} <= parameters(FleetHttpClient.__init__)
    assert all(hasattr(ControlHttpClient, name) for name in ("RegisterNode", "ListNodes", "StartRun", "StopRun"))
    assert hasattr(RuntimeHttpClient, "AcquireTask")


def test_a_nodes_key_is_written_as_the_superlink_writes_it(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    make_node_key(tmp_path / "node.key", tmp_path / "node.pub")
    key = load_ssh_private_key((tmp_path / "node.key").read_bytes(), None)
    assert control.public_key(tmp_path / "node.pub") == public_key_to_bytes(key.public_key())  # type: ignore[arg-type]


def test_the_app_is_one_that_flower_takes(tmp_path: Path) -> None:
    from flwr.common.config import get_project_config

    app = control.write_app(tmp_path / "home", tmp_path)
    parts = get_project_config(app)["tool"]["flwr"]["app"]
    assert parts["config"]["folder"] == str(tmp_path.resolve())
    assert parts["components"] == {"serverapp": "fedloom_app.server:app", "clientapp": "fedloom_app.client:app"}


def test_the_bundle_of_the_app_is_made_as_flowers_own_command_makes_it(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import get_fab_metadata

    assert get_fab_metadata(build_fab_from_disk(control.write_app(tmp_path, tmp_path))) == (
        "fedloom/fedloom-app", "1.0.0"
    )  # fmt: skip
