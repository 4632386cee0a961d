"""What the server's reception answers a site that nginx has let through."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
pytest.importorskip("flwr", reason="Flower is not installed: its version is not known")

import fedloom
from fedloom.deploy.members import site_serial
from fedloom.deploy.operate.ask_server import _question
from fedloom.deploy.operate.reception import Reception, visit_notes
from fedloom.deploy.protocol.versions import PROTOCOL
from fedloom.deploy.provision import folders, membership

RUN = 'rounds = 1\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    (tmp_path / "run.toml").write_text(RUN)
    folders.init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], days=20)
    (tmp_path / "deploy/server/flower").mkdir(exist_ok=True)
    return tmp_path / "deploy"


def ask(deploy: Path, site: str, serial: str) -> dict[str, Any]:
    question = _question(deploy / site)
    return Reception(deploy / "server", print).answer(site, serial, "127.0.0.1", question)


def test_a_revoked_name_is_refused_whatever_certificate_asks_for_it(deploy: Path) -> None:
    """nginx compares serial numbers; a certificate that it does not know to be revoked must not get further."""
    serial = site_serial(deploy / "server", "north")
    assert ask(deploy, "north", serial)["refused"] == ""
    membership.revoke("north", deploy)
    for one in (serial, serial.lower(), "ABCD"):
        assert "the operator has revoked this site" in ask(deploy, "north", one)["refused"]
    assert ask(deploy, "south", site_serial(deploy / "server", "south"))["refused"] == ""
    shutil.rmtree(deploy / "north")
    membership.add("north", deploy)
    assert ask(deploy, "north", site_serial(deploy / "server", "north"))["refused"] == ""
    assert "the operator has revoked this site" in ask(deploy, "north", serial)["refused"]


def test_renewed_files_are_offered_when_they_are_whole(deploy: Path) -> None:
    serial = site_serial(deploy / "server", "north")
    shutil.copytree(deploy / "north", deploy / "away")
    membership.renew(deploy, days=100)
    assert "renewed" in ask(deploy, "north", serial)
    before = (deploy / "away" / "client.pem").read_bytes()
    (deploy / "server/renewed/north/client.pem").write_bytes(before)  # as while the operator's command writes
    assert "renewed" not in ask(deploy, "north", serial)


def test_a_site_of_another_version_is_let_in_with_the_same_protocol_and_the_operator_hears_of_it_once(
    deploy: Path,
) -> None:
    said: list[str] = []
    desk, serial = Reception(deploy / "server", said.append), site_serial(deploy / "server", "north")

    def ask_as(**versions: Any) -> str:
        return str(desk.answer("north", serial, "127.0.0.1", _question(deploy / "north") | versions)["refused"])

    for _ in range(3):
        assert ask_as(fedloom="9.8.7") == ""
    note = f"runs fedloom 9.8.7, and the server {fedloom.__version__} (both speak protocol {PROTOCOL})"
    assert said == [f"Site north {note}: it takes part."]
    assert visit_notes(deploy / "server") == {}  # nothing is wrong
    refused = ask_as(fedloom="9.8.7", protocol=PROTOCOL + 1)
    assert refused == (
        f"this site runs fedloom 9.8.7 (protocol {PROTOCOL + 1}), but the server runs {fedloom.__version__} (protocol "
        f"{PROTOCOL}): pip install 'fedloom[deploy]=={fedloom.__version__}' there, or upgrade the server."
    )
    assert "this site has torch 2.0.1, but the server has" in ask_as(torch="2.0.1")
    assert ask_as() == ""
    assert visit_notes(deploy / "server") == {}
