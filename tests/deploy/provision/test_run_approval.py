"""A deployment with an approver begins a run with an approval of exactly this run, once, and not otherwise."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: no run is begun")

from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.operate import commands
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision.folders import init
from fedloom.deploy.provision.membership import add, renew
from fedloom.deploy.provision.run_approval import APPROVAL, REQUEST, approve, approved_number, request_lines
from fedloom.deploy.provision.signature import check_signature
from fedloom.deploy.server import serve

RUN = 'rounds = 2\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "run.toml").write_text(RUN)
    folders = init(folder / "run.toml", folder / "deploy", ["north", "south"], rehearsal=True, approver=True)
    assert [one.name for one in folders] == ["server", "north", "south", "approver"]
    return folder / "deploy"


@pytest.fixture
def deployment(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "deploy"))


def refusal(deployment: Path) -> str:
    with pytest.raises(FedloomError) as error:
        approved_number(deployment / "server")
    return str(error.value)


def begin(deployment: Path) -> str:
    """Let the server half begin a run; the number under which sites count it."""
    server = deployment / "server"
    (server / "run").mkdir()
    name = serve._run_name(server, Blueprint.load(server))
    (server / "run" / "config.toml").write_text("")
    return name.rpartition("-")[2]


def test_the_approvers_key_is_in_no_other_folder_and_the_authority_vouches_for_it(deployment: Path) -> None:
    assert [path.parent.name for path in deployment.rglob("approver.key")] == ["approver"]
    assert (deployment / "approver" / "approver.key").stat().st_mode & 0o777 == 0o600
    check_signature(deployment / "server")
    (deployment / "server" / "approver.pem").unlink()
    with pytest.raises(FedloomError, match=r"approver\.pem is missing, and the authority signed it"):
        check_signature(deployment / "server")


def test_a_run_begins_with_an_approval_and_has_its_number(deployment: Path) -> None:
    server = deployment / "server"
    assert "needs the approver" in refusal(deployment)
    asked = (server / REQUEST).read_bytes()
    assert "needs the approver" in refusal(deployment)
    assert (server / REQUEST).read_bytes() == asked  # the approver may be signing it
    assert "fedavg, 2 rounds, with north, south" in request_lines(server / REQUEST)[0]
    assert approve(server / REQUEST, deployment / "approver") == server / APPROVAL
    number = json.loads(asked)["number"]
    assert begin(deployment) == number
    assert read_audit(server).entries[-1]["what"] == "run approved"
    assert json.loads((server / "run" / APPROVAL).read_text())["request"]["number"] == number


def test_an_approval_is_for_one_run(deployment: Path) -> None:
    server = deployment / "server"
    refusal(deployment)
    approve(server / REQUEST, deployment / "approver")
    number = begin(deployment)
    (server / "run").rename(server / "run-1")
    assert "has begun already" in refusal(deployment)
    assert json.loads((server / REQUEST).read_text())["number"] != number
    approve(server / REQUEST, deployment / "approver")
    assert begin(deployment) != number


def test_a_run_that_has_begun_is_continued_without_another_approval(deployment: Path) -> None:
    refusal(deployment)
    approve(deployment / "server" / REQUEST, deployment / "approver")
    number = begin(deployment)
    (deployment / "server" / APPROVAL).unlink()
    assert serve._run_name(deployment / "server", Blueprint.load(deployment / "server")).endswith(f"-{number}")


def test_an_approval_of_other_settings_does_not_count(deployment: Path) -> None:
    server = deployment / "server"
    refusal(deployment)
    approve(server / REQUEST, deployment / "approver")
    settings = server / "deploy.toml"
    settings.write_text(f"max_norm = 3.0\n{settings.read_text()}")
    assert "deploy.toml has changed since" in refusal(deployment)


def test_an_approval_of_other_sites_does_not_count(deployment: Path) -> None:
    refusal(deployment)
    approve(deployment / "server" / REQUEST, deployment / "approver")
    add("east", deployment, rehearsal=True)
    assert "its sites have changed since" in refusal(deployment)


@pytest.mark.parametrize("change", ["number", "by", "signature"])
def test_an_approval_that_was_edited_does_not_count(deployment: Path, change: str) -> None:
    server = deployment / "server"
    refusal(deployment)
    approve(server / REQUEST, deployment / "approver")
    said = json.loads((server / APPROVAL).read_text())
    if change == "number":
        said["request"]["number"] = "0" * 16
    else:
        said[change] = "QUJD"
    (server / APPROVAL).write_text(json.dumps(said))
    assert "is not signed by the approver" in refusal(deployment)


def test_the_key_of_somebody_else_approves_nothing(deployment: Path, made: Path) -> None:
    server = deployment / "server"
    refusal(deployment)
    shutil.copy(deployment / "authority" / "ca.key", deployment / "approver" / "approver.key")
    approve(server / REQUEST, deployment / "approver")
    assert "is not signed by the approver" in refusal(deployment)
    public = (made / "server" / "ca.crt").read_bytes()
    (server / "approver.pem").write_bytes(public)
    assert "is not the file that the authority signed" in refusal(deployment)


def test_the_approver_stays_after_a_renewal(deployment: Path) -> None:
    renew(deployment, None, 30)
    assert "needs the approver" in refusal(deployment)


def test_a_new_run_that_nobody_approved_leaves_the_last_one_where_it_is(deployment: Path) -> None:
    run = deployment / "server" / "run"
    run.mkdir()
    (run / "config.toml").write_text("")
    with pytest.raises(FedloomError, match="needs the approver"):
        commands.run(deployment / "server", pytest.fail, pytest.fail, new=True)
    assert run.is_dir()


def test_a_deployment_without_an_approver_needs_no_approval(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], rehearsal=True)
    assert approved_number(tmp_path / "deploy" / "server") == ""
    assert not (tmp_path / "deploy" / "server" / REQUEST).exists()


def test_what_is_not_a_request_is_not_signed(tmp_path: Path) -> None:
    (tmp_path / REQUEST).write_text('{"plan": "x"}')
    with pytest.raises(FedloomError, match="is not a request for a run"):
        request_lines(tmp_path / REQUEST)
