"""``fedloom deploy status`` and ``audit`` of folders that nothing runs in."""

from __future__ import annotations

import json

import pytest

from support.command_line import refusal


def test_status_of_a_site_that_never_ran(deploy, fedloom):
    lines = fedloom("status", deploy / "south").stdout.splitlines()
    assert lines[:3] == ["site south: not running", "no final model yet", "certificates: valid for 364 more days"]
    values = json.loads(fedloom("status", deploy / "south", "--json").stdout)
    assert lines[3:] == [f"authority: {values.pop('authority')}"]
    certificates = {"days_left": {"south": 364}, "warnings": []}
    assert values == {"site": "south", "running": None, "last": [], "model": False, **certificates}


def test_status_of_a_server_that_is_down(deploy, fedloom):
    pytest.importorskip("flwr", reason="Flower is not installed: a server's sites are not looked for")
    lines = fedloom("status", deploy / "server").stdout.splitlines()
    sites = [f"  {name}: not connected" for name in ("north", "south", "judge")]
    assert lines[:-1] == ["server: not running", *sites, "certificates: valid for 364 more days"]
    assert lines[-1].startswith("authority: ")


def test_status_of_a_run_says_who_was_left_out_and_why_it_stopped(deploy, fedloom):
    pytest.importorskip("flwr", reason="Flower is not installed: a server's sites are not looked for")
    run = deploy / "server" / "run"
    run.mkdir()
    one = {"client": 1, "name": "south", "what": "update", "reason": "reply/row has numbers that are not finite"}
    record = {"round": 2, "metrics": {"global_model/global_test/accuracy": 0.75, "x/loss": 1.0}, "excluded": [one]}
    (run / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    (run / "outcome.json").write_text(json.dumps({"error": "round 3 was abandoned"}))
    lines = fedloom("status", deploy / "server").stdout.splitlines()
    assert lines[-4:] == [
        "run: not running, 2 rounds done",
        "  global_model/global_test/accuracy: 0.75",
        "  round 2: south left out of 'update': reply/row has numbers that are not finite",
        "the run stopped: round 3 was abandoned",
    ]
    (run / "outcome.json").write_text(json.dumps({"stopped": None}))
    assert fedloom("status", deploy / "server").stdout.splitlines()[-1] == "the run is finished"


def test_a_misspelt_setting_is_named(deploy, fedloom):
    path = deploy / "north" / "site.toml"
    path.write_text(path.read_text().replace("server = ", "sevrer = "))
    assert "sevrer" in refusal(fedloom("status", deploy / "north"))


def test_the_audit_log_is_printed_and_its_chain_is_checked(deploy, fedloom):
    done = fedloom("audit", str(deploy / "server"))
    assert done.returncode == 0
    assert "folder made" in done.stdout.splitlines()[0]
    assert done.stdout.splitlines()[-1].startswith("1 entries; the last digest is ")
    log = deploy / "server" / "audit.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"before": "0', b'"before": "1'))
    done = fedloom("audit", str(deploy / "server"))
    assert done.returncode == 2
    assert "the first line was removed or edited" in done.stderr
    assert json.loads(fedloom("audit", str(deploy / "server"), "--json").stdout)["problem"]


def test_the_audit_judges_the_plan_and_what_it_finds_is_no_error(deploy, fedloom):
    done = fedloom("audit", str(deploy / "server"))
    assert done.returncode == 0
    assert "What the plan leaves open: 1 high" in done.stdout
    assert "high    the server sees every site's update as it is" in done.stdout
    values = json.loads(fedloom("audit", str(deploy / "server"), "--json").stdout)
    assert values["unjudged"] is None
    assert values["weaknesses"][0].keys() == {"severity", "what", "could", "advice"}
    assert values["weaknesses"][0]["severity"] == "high"


def test_a_plan_that_cannot_be_read_leaves_the_log_readable(deploy, fedloom):
    (deploy / "north" / "schema.json").unlink()
    done = fedloom("audit", str(deploy / "north"))
    assert done.returncode == 0
    assert "The plan cannot be judged: " in done.stdout
    assert "has no schema.json" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 entries; ")
