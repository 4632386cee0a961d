"""A running server takes changes of its folder: nodes are registered and unregistered, and nginx reads anew."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
pytest.importorskip("flwr", reason="Flower is not installed: no nodes are registered")

from fedloom.deploy.flower.control import public_key
from fedloom.deploy.flower.server_transport import NodeInfo
from fedloom.deploy.operate import admission
from fedloom.deploy.operate.admission import Admission, register_members, wait_until_admitted
from fedloom.deploy.operate.programs import PidFile
from fedloom.deploy.provision import folders, membership
from fedloom.deploy.settings import load_server

RUN = 'rounds = 1\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


class Link:
    """Stands for the SuperLink: a list of nodes."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.removed: set[int] = set()
        self.down = self.keeps = False

    def nodes(self) -> list[NodeInfo]:
        if self.down:
            raise ConnectionRefusedError("nobody listens")
        known = enumerate(self.keys)
        return [NodeInfo(number, key, True, 0.0) for number, key in known if number not in self.removed]

    def register(self, key: bytes) -> None:
        self.keys.append(key)

    def unregister(self, number: int) -> None:
        if not self.keeps:
            self.removed.add(number)
        raise ConnectionError("Flower fails on nodes that never connected")

    def members(self) -> set[bytes]:
        return {node.key for node in self.nodes()}


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(RUN)
    folders.init(root / "run.toml", root / "deploy", ["north", "south"])
    return root / "deploy"


@pytest.fixture
def deploy(deploy_folder, tmp_path) -> Path:
    return Path(shutil.copytree(deploy_folder, tmp_path / "deploy"))


def key(deploy: Path, name: str) -> bytes:
    return public_key(deploy / "server/keys" / f"{name}.pub")


def test_changes_of_the_folder_reach_the_superlink_and_nginx_once_each(deploy):
    server, link, said, reloaded = deploy / "server", Link(), [], []
    register_members(server, load_server(server), link)
    desk = Admission(server, lambda: link, reloaded.append, said.append)
    desk.apply_changes()
    assert (said, reloaded) == ([], [])
    membership.revoke("north", deploy)
    gone = key(deploy, "north")
    desk.apply_changes()
    desk.apply_changes()
    assert gone not in link.members()
    assert key(deploy, "south") in link.members()
    assert said == ["Site north is revoked: its certificate and its key are refused from now on."]
    assert len(reloaded) == 1
    shutil.rmtree(deploy / "north")
    membership.add("north", deploy)
    membership.add("east", deploy)
    desk.apply_changes()
    assert {key(deploy, name) for name in ("north", "south", "east")} == link.members()
    assert said[1:] == ["Site east may connect from now on.", "Site north may connect from now on."]
    assert reloaded[-1].sites == ["north", "south", "east"]


def test_a_change_that_cannot_be_applied_is_said_once_and_tried_again(deploy, monkeypatch):
    monkeypatch.setattr(admission, "RETRY", 0.0)
    server, link, said = deploy / "server", Link(), []
    desk = Admission(server, lambda: link, None, said.append)
    membership.revoke("north", deploy)
    link.down = True
    desk.apply_changes()
    desk.apply_changes()
    assert len(said) == 1
    assert "cannot be applied yet: nobody listens" in said[0]
    link.down = False
    desk.apply_changes()
    assert said[1:] == ["Site north is revoked: its certificate and its key are refused from now on."]


def test_a_command_waits_until_a_running_server_has_taken_its_change(deploy):
    server, link = deploy / "server", Link()
    desk = Admission(server, lambda: link, None, lambda _: None)
    assert not wait_until_admitted(server, PidFile(server / "flower/process"))  # no server runs
    PidFile(server / "flower/process").take("this server")
    membership.revoke("north", deploy)
    later = threading.Timer(0.2, desk.apply_changes)
    later.start()
    assert wait_until_admitted(server, PidFile(server / "flower/process"))
    assert key(deploy, "north") not in link.members()
    later.join()


def test_a_server_that_does_not_take_a_change_is_reported(deploy, monkeypatch):
    monkeypatch.setattr(admission, "TAKEN", 0.0)
    server = deploy / "server"
    Admission(server, Link, None, lambda _: None)
    PidFile(server / "flower/process").take("this server")
    membership.revoke("north", deploy)
    with pytest.raises(FedloomError, match="the server has not applied the change"):
        wait_until_admitted(server, PidFile(server / "flower/process"))


def test_a_superlink_that_keeps_a_revoked_node_is_reported(deploy):
    link = Link()
    link.keys, link.keeps = [b"a stranger's key"], True
    with pytest.raises(FedloomError, match="does not remove the nodes of revoked sites"):
        register_members(deploy / "server", load_server(deploy / "server"), link)
