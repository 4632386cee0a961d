"""``fedloom deploy status``: the same facts as lines, as JSON, as a table that follows them, and in a pipe."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed: no keys are made")

from rich.console import Console

from fedloom.cli.deploy.status_view import status_lines, status_table, status_values
from fedloom.deploy.audit_log import append
from fedloom.deploy.operate.run_queue import RunQueue
from fedloom.deploy.provision.private_keys import make_node_key
from fedloom.deploy.settings import SiteSettings, to_toml
from fedloom.runs.folder.metrics_file import append_record
from fedloom.watch.status import LeftOut, Participant, Remark, Status
from fedloom.watch.status_reader import StatusReader
from support.waiting import LIMIT
from support.watched_runs import record, write_server

ONE = {"client": 0, "name": "north", "what": "update", "reason": "reply/row has numbers that are not finite"}
CLIP = {"client": 0, "name": "north", "what": "clipped", "reason": "moved by 9"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "south"
    folder.mkdir()
    (folder / "site.toml").write_bytes(to_toml(SiteSettings(name="south", client=1)))
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = write_server(tmp_path / "server", 0, sites=["north"], control_port=1, port=2)
    make_node_key(tmp_path / "node.key", folder / "keys" / "north.pub")
    (folder / "run").mkdir()
    return folder


def values(folder: Path) -> dict[str, object]:
    return status_values(StatusReader(folder).read())


def test_a_site_that_never_ran(site):
    found = values(site)
    assert {name: found[name] for name in ("site", "running", "last", "model")} == {
        "site": "south", "running": None, "last": [], "model": False,
    }  # fmt: skip
    assert "ca.crt cannot be read" in found["warnings"][0]  # this folder has settings only


def test_a_site_that_ran(site):
    (site / "logs").mkdir()
    (site / "logs" / "site.log").write_bytes(b"site: open\n\xffround 3: update\n")
    (site / "model").mkdir()
    assert values(site)["last"] == ["\ufffdround 3: update"]
    assert values(site)["model"]
    assert "last: \ufffdround 3: update" in status_lines(StatusReader(site).read())


def test_runs_in_line_are_shown(server):
    RunQueue(server).join(at_once=False)
    (waiting,) = RunQueue(server).waiting()
    assert values(server)["in_line"] == [f"{waiting.who}, since {waiting.time}"]
    assert f"in line: a new run of {waiting.who}, since {waiting.time}" in status_lines(StatusReader(server).read())


def test_a_server_that_is_down_tells_of_its_run(server):
    append_record(server / "run", {"round": 1, "metrics": {"a": 1.0}}, 0.1)
    append_record(server / "run", {"round": 2, "metrics": {"a": 2.0}, "excluded": [ONE], "remarks": [CLIP]}, 0.1)
    (server / "run" / "outcome.json").write_text(json.dumps({"error": "round 3 was abandoned"}))
    found = values(server)
    assert found.pop("days_left") == {}
    assert "ca.crt cannot be read" in found.pop("warnings")[0]
    assert found == {
        "authority": "",
        "revoked": {},
        "running": None,
        "sites": {"north": False},
        "late": {},
        "differ": {},
        "at_work": False,
        "waiting": "",
        "round": 2,
        "metrics": {"a": 2.0},
        "excluded": [{"round": 2, **ONE}],
        "remarks": [{"round": 2, "name": "north", "what": "clipped", "reason": "moved by 9"}],
        "outcome": {"error": "round 3 was abandoned"},
        "in_line": [],
    }
    assert "  round 2: north (clipped): moved by 9" in status_lines(StatusReader(server).read())


def test_a_site_of_another_version_is_no_trouble_and_is_named(server):
    append(server, "site connected", site="north", version="9.8.7", differs="runs fedloom 9.8.7, and the server 0.7.0")
    assert values(server)["differ"] == {"north": "runs fedloom 9.8.7, and the server 0.7.0"}
    lines = status_lines(StatusReader(server).read())
    assert "  north: not connected; it runs fedloom 9.8.7, and the server 0.7.0" in lines
    append(server, "site connected", site="north", version="0.7.0")  # the server was upgraded too
    assert values(server)["differ"] == {}


def test_a_broken_audit_log_is_in_the_status(server):
    (server / "audit.jsonl").write_text('{"what": "server started", "before": "x"}\n')
    assert any(line.startswith("audit log: broken: line 1 of") for line in status_lines(StatusReader(server).read()))


def test_the_table_has_every_site_with_its_last_sign_of_life_as_text():
    site = Participant("[red]north[/]", True, 95.0, "", 3, 3, 1, 1200, 30, "0.6", 12)
    status = Status(
        "server", "/x", "[b]fedavg[/b]", "running", round=3, rounds=10, participants=[site], clients=1, serving=True,
        metrics={"global_model/global_test/accuracy": 0.75}, last_record=99.0, round_seconds=1.0,
        left_out=[LeftOut(3, "[red]north[/]", "update", "late")],
        remarks=[Remark(3, "[red]north[/]", "clipped", "moved by 9")],
    )  # fmt: skip
    page = io.StringIO()
    Console(file=page, width=140).print(status_table(status, 100.0))
    text = page.getvalue()
    assert "[b]fedavg[/b]: running, round 3 of 10" in text
    for cell in ("[red]north[/]", "connected", "5.0 s ago", "1,200", "0.6", "12 days"):
        assert cell in text
    assert "global_model/global_test/accuracy: 0.75" in text
    assert "round 3: [red]north[/] left out of 'update': late" in text
    assert "round 3: [red]north[/] (clipped): moved by 9" in text


@pytest.mark.slow
def test_in_a_pipe_the_lines_come_when_they_change_until_ctrl_c(server):
    words = [sys.executable, "-m", "fedloom.cli.app", "deploy", "status", str(server), "--watch", "--json"]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert json.loads(started.stdout.readline())["round"] is None
    append_record(server / "run", record(1), 0.1)
    assert json.loads(started.stdout.readline())["round"] == 1
    started.send_signal(signal.SIGINT)
    out, error = started.communicate(timeout=LIMIT)
    assert (started.returncode, out, error) == (0, "", "stopped\n")
