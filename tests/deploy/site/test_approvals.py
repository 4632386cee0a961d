"""Where there is an approver, a site begins a run with an approval of exactly this run, once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("cryptography", reason="cryptography is not installed: no folders are made")

from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import read_audit
from fedloom.deploy.explanation_text import explain_site
from fedloom.deploy.protocol.approval_tensor import APPROVAL_TENSOR, LARGEST, approval_tensors
from fedloom.deploy.protocol.wire import SiteAnswer, SiteRequest, pack, unpack
from fedloom.deploy.provision.folders import init
from fedloom.deploy.provision.membership import add, renew, revoke
from fedloom.deploy.provision.run_approval import (
    APPROVAL,
    APPROVER,
    REQUEST,
    approve,
    approved_number,
    make_approver,
)
from fedloom.deploy.provision.signature import check_signature
from fedloom.deploy.site import approvals, request_count
from fedloom.deploy.site.process import SiteProcess
from support.local_transport import quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
RUN = 'rounds = 2\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'
Approval = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "run.toml").write_text(RUN)
    init(folder / "run.toml", folder / "deploy", ["north", "south"], rehearsal=True, approver=True)
    return folder / "deploy"


@pytest.fixture
def deployment(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "deploy"))


def leave(asked: Approval) -> None:
    """Change nothing of a request."""


def approved(deployment: Path, change: Callable[[Approval], Any] = leave, key: str = "approver") -> Approval:
    """A new approval, of a request that an operator may have changed before the approver saw it."""
    server = deployment / "server"
    for name in (APPROVAL, REQUEST):
        (server / name).unlink(missing_ok=True)
    with pytest.raises(FedloomError, match="needs the approver"):
        approved_number(server)
    asked = json.loads((server / REQUEST).read_text())
    change(asked)
    (server / REQUEST).write_text(json.dumps(asked))
    found: Approval = json.loads(approve(server / REQUEST, deployment / key).read_text())
    return found


def name_of(approval: Approval) -> str:
    return f"{approval['request']['plan']}-{approval['request']['number']}"


def ask(site: SiteProcess, run: str, approval: Approval | None, round: int = 1, kind: str = "update") -> str:
    """Ask a site to train in a run, with an approval or without; its error."""
    row = site.runtime.training.task.initial_row()
    request = SiteRequest.model_validate({"run": run, "ticket": f"t{round}", "kind": kind, "round": round})
    tensors = {"shared/row": row, **approval_tensors(approval or {})}
    answer, sent = unpack(site.answer(pack(request, tensors)), SiteAnswer, 1 << 40)
    assert bool(answer.error) == (not sent)
    return answer.error


def open_north(deployment: Path) -> SiteProcess:
    return SiteProcess.open(deployment / "north")


def test_the_authority_vouches_for_the_approver_at_every_site(deployment: Path) -> None:
    add("east", deployment, rehearsal=True)
    for name in ("north", "south", "east"):
        assert (deployment / name / APPROVER).read_bytes() == (deployment / "server" / APPROVER).read_bytes()
        check_signature(deployment / name)
        assert not (deployment / name / "approver.key").exists()
    (deployment / "north" / APPROVER).write_bytes(make_approver(deployment / "authority"))
    with pytest.raises(FedloomError, match=r"approver\.pem is not the file that the authority signed"):
        check_signature(deployment / "north")
    text = explain_site(deployment / "south")
    assert "A new run begins here only with the signature of the deployment's approver" in text


def test_an_approved_run_begins_and_goes_on_without_its_approval_also_after_a_restart(deployment: Path) -> None:
    site, approval = open_north(deployment), approved(deployment)
    assert ask(site, name_of(approval), approval) == ""
    assert ask(site, name_of(approval), None, round=2) == ""
    assert ask(open_north(deployment), name_of(approval), None, round=2) == ""
    entry = next(one for one in read_audit(site.folder).entries if one["what"] == "run approved")
    assert (entry["number"], entry["by"]) == (approval["request"]["number"], approval["by"])


def test_a_server_that_sends_no_approval_begins_no_run_and_hears_why(
    deployment: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site, approval = open_north(deployment), approved(deployment)
    said = (
        "refused by the site's policy: a new run of this deployment needs its approver, and the server has sent no "
        "approval of it"
    )
    assert ask(site, name_of(approval), None) == said
    assert said in caplog.text
    assert ask(site, site.plan, None) == said  # a run without a number of its own
    assert not (site.folder / request_count.FILE).exists()
    assert read_audit(site.folder).entries[-1]["what"] == "request refused"
    greeting = SiteRequest(run=name_of(approval), ticket="t", kind="hello", round=0)
    hello, _ = unpack(site.answer(pack(greeting, {})), SiteAnswer, 1 << 40)
    assert hello.error == ""  # a greeting begins nothing
    assert ask(site, name_of(approval), approval) == ""


def test_every_kind_of_request_needs_the_approval_that_begins_a_run(deployment: Path) -> None:
    site, approval = open_north(deployment), approved(deployment)
    for kind in ("update", "score", "finish"):
        assert "needs its approver" in ask(site, name_of(approval), None, 2, kind)


def test_an_approval_begins_no_second_run(deployment: Path) -> None:
    site, first = open_north(deployment), approved(deployment)
    assert ask(site, name_of(first), first) == ""
    another = f"{site.plan}-{'0' * 16}"
    assert "is for another one" in ask(site, another, first)
    second = approved(deployment)
    assert name_of(second) != name_of(first)
    assert ask(site, name_of(second), second) == ""
    assert "its run is over" in ask(site, name_of(first), first)
    assert "its run is over" in ask(open_north(deployment), name_of(first), first)
    assert ask(site, name_of(second), None, round=2) == ""


def test_an_approval_is_used_up_although_the_count_of_requests_is_lost(deployment: Path) -> None:
    """``asked.json`` may be removed to count rounds from the start, and another plan's counts take its place."""
    site, first = open_north(deployment), approved(deployment)
    second = approved(deployment)
    assert ask(site, name_of(first), first) == ""
    assert ask(site, name_of(second), second) == ""
    (site.folder / request_count.FILE).unlink()
    again = open_north(deployment)
    assert "its run is over" in ask(again, name_of(first), first)
    assert ask(again, name_of(second), None) == ""


def test_a_run_whose_approvals_are_lost_goes_on_and_those_before_it_do_not(deployment: Path) -> None:
    site, first = open_north(deployment), approved(deployment)
    second = approved(deployment)
    assert ask(site, name_of(first), first) == ""
    assert ask(site, name_of(second), second) == ""
    (site.folder / approvals.FILE).unlink()
    again = open_north(deployment)
    assert "its run is over" in ask(again, name_of(first), first)
    assert ask(again, name_of(second), None, round=2) == ""
    third = approved(deployment)
    assert ask(again, name_of(third), third) == ""
    assert json.loads((site.folder / approvals.FILE).read_text()) == [*map(name_of, (first, second, third))]


def test_a_damaged_file_of_approved_runs_is_said_at_the_start(deployment: Path) -> None:
    (deployment / "north" / approvals.FILE).write_text('["x"')
    with pytest.raises(FedloomError, match=r"approved\.json is damaged"):
        open_north(deployment)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda asked: asked.update(sites=["south", "north"]), "is for other sites"),
        (lambda asked: asked.update(sites=["south"]), "is for other sites"),
        (lambda asked: asked.update(plan="0" * 32), "is for another one"),
        (lambda asked: asked.update(rounds=1), "was shown another plan"),
        (lambda asked: asked.update(label="fedprox"), "was shown another plan"),
    ],
    ids=["sites in another order", "fewer sites", "another plan", "fewer rounds", "another method"],
)
def test_an_approval_of_something_else_begins_nothing(deployment: Path, change: Any, said: str) -> None:
    site, approval = open_north(deployment), approved(deployment, change)
    run = f"{site.plan}-{approval['request']['number']}"
    assert said in ask(site, run, approval)
    assert not (site.folder / approvals.FILE).exists()


def test_an_approval_of_sites_that_were_added_begins_a_run_at_those_that_were_there(deployment: Path) -> None:
    site = open_north(deployment)
    add("east", deployment, rehearsal=True)
    approval = approved(deployment)
    assert approval["request"]["sites"] == ["north", "south", "east"]
    for one in (site, SiteProcess.open(deployment / "east")):
        assert ask(one, name_of(approval), approval) == ""


def test_the_key_of_somebody_else_begins_nothing(deployment: Path) -> None:
    site = open_north(deployment)
    stranger = deployment / "stranger"
    stranger.mkdir()
    make_approver(stranger)
    assert "is not signed by the approver" in ask(site, name_of(one := approved(deployment, key="stranger")), one)
    shutil.copy(deployment / "authority" / "ca.key", stranger / "approver.key")
    assert "is not signed by the approver" in ask(site, name_of(one := approved(deployment, key="stranger")), one)


@pytest.mark.parametrize("name", ["number", "sites", "signature", "by"])
def test_an_approval_that_was_edited_begins_nothing(deployment: Path, name: str) -> None:
    site, approval = open_north(deployment), approved(deployment)
    edits = {"number": "1" * 16, "sites": ["north", "south", "east"]}
    asked = approval["request"]
    changed = {"request": {**asked, name: edits[name]}} if name in edits else {name: "QQ=="}
    changed = {**approval, **changed}
    assert "is not signed by the approver" in ask(site, name_of(changed), changed)


def test_anything_else_in_the_place_of_an_approval_begins_nothing(deployment: Path) -> None:
    site, run = open_north(deployment), name_of(approved(deployment))
    for tensor in (
        torch.zeros(4),
        torch.zeros(LARGEST + 1, dtype=torch.uint8),
        torch.full((3,), 255, dtype=torch.uint8),
        *approval_tensors({"request": [], "signature": 3}).values(),
        *approval_tensors({"request": {}, "signature": "ü"}).values(),
    ):
        request = SiteRequest(run=run, ticket="t", kind="update", round=1)
        row = site.runtime.training.task.initial_row()
        data = pack(request, {"shared/row": row, APPROVAL_TENSOR: tensor})
        answer, _ = unpack(site.answer(data), SiteAnswer, 1 << 40)
        assert answer.error.startswith("refused by the site's policy: "), answer.error


def test_the_approver_stays_after_a_renewal_and_with_new_keys(deployment: Path) -> None:
    renew(deployment, None, 30)
    site = open_north(deployment)
    check_signature(site.folder)
    assert "needs its approver" in ask(site, name_of(approved(deployment)), None)
    revoke("south", deployment)
    shutil.rmtree(deployment / "south")
    assert (add("south", deployment, rehearsal=True) / APPROVER).exists()


def test_without_an_approver_a_site_asks_for_none(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    init(tmp_path / "run.toml", tmp_path / "deploy", ["north", "south"], rehearsal=True)
    site = open_north(tmp_path / "deploy")
    assert ask(site, f"{site.plan}-1", None) == ""
    assert not (site.folder / approvals.FILE).exists()
