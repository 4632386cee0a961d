"""``fedloom deploy``: folders, explanations and states on the command line, and one sentence for what cannot be."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from fedloom.cli.deploy import app
from fedloom.deploy.settings import load_server, load_site
from support.command_line import refusal

RUN = 'rounds = 2\n[task]\nname = "digits"\nclients = 2\nmodel = "logistic"\n[method]\nname = "fedavg"\n'


@pytest.fixture(scope="module")
def deploy_folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("made")
    (root / "run.toml").write_text(RUN)
    done = CliRunner().invoke(
        app, ["init", str(root / "run.toml"), "--clients", "north, south", "--out", str(root / "d"), "--port", "9443",
              "--control-port", "9000", "--site-port", "9300", "--evaluator", "judge", "--host", "127.0.0.1"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        *(str(root / "d" / name) for name in ("server", "north", "south", "judge")),
        "Give each folder to its participant alone; keep the authority's. Each has a README.md.",
    ]
    return root / "d"


@pytest.fixture
def deploy(deploy_folder, tmp_path) -> Path:
    return Path(shutil.copytree(deploy_folder, tmp_path / "d"))


@pytest.fixture
def fedloom(fedloom_in_process):
    return partial(fedloom_in_process, "deploy")


# -- init


def test_init_writes_what_was_asked_for(deploy_folder):
    settings = load_server(deploy_folder / "server")
    assert (settings.sites, settings.evaluator) == (["north", "south"], "judge")
    assert (settings.port, settings.control_port, settings.proxy) == (9443, 9000, True)
    assert [load_site(deploy_folder / name).port for name in ("north", "south", "judge")] == [9300, 9301, 9302]
    assert load_site(deploy_folder / "south").server == "127.0.0.1:9443"
    assert not load_site(deploy_folder / "south").data.rehearsal


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.toml", "--clients", "a,b"], "there is no configuration file none.toml"),
        (["run.toml", "--clients", "a,b,c"], "3 sites are named, but the task has 2 clients"),
        (["run.toml", "--clients", "a,a"], "site name 'a' is given twice"),
        (["run.toml", "--clients", "a,../b"], "../b"),
        (["run.toml", "--clients", ","], "a deployment needs at least one site"),
        (["central.toml", "--clients", "a,b"], "trains on all clients' data in one place"),
        (["wrong.toml", "--clients", "a,b"], "roundz"),
    ],
)
def test_init_refuses_in_one_sentence_and_leaves_nothing(tmp_path, fedloom, words, says):
    (tmp_path / "run.toml").write_text(RUN)
    (tmp_path / "central.toml").write_text(RUN.replace("fedavg", "centralised"))
    (tmp_path / "wrong.toml").write_text(RUN.replace("rounds", "roundz"))
    before = sorted(tmp_path.iterdir())
    assert says in refusal(fedloom("init", *words, "--out", "d"))
    assert sorted(tmp_path.iterdir()) == before


def test_init_never_overwrites(tmp_path, fedloom, deploy):
    (tmp_path / "run.toml").write_text(RUN)
    before = {path: path.read_bytes() for path in deploy.rglob("*") if path.is_file()}
    assert str(deploy.name) in refusal(fedloom("init", "run.toml", "--clients", "a,b", "--out", "d"))
    assert {path: path.read_bytes() for path in deploy.rglob("*") if path.is_file()} == before


# -- explain


def test_explain_tells_the_same_of_the_run_file_and_of_a_participants_config(deploy, tmp_path, fedloom):
    (tmp_path / "run.toml").write_text(RUN)
    result = fedloom("explain", "run.toml")
    assert result.returncode == 0
    model = 4 * (64 * 10 + 10)
    assert f"{model:,}" in result.stdout
    assert fedloom("explain", deploy / "north" / "config.toml").stdout == result.stdout


def test_explain_at_the_server_knows_its_settings(deploy, fedloom):
    plain = fedloom("explain", deploy / "north" / "config.toml").stdout
    text = (deploy / "server" / "deploy.toml").read_text()
    (deploy / "server" / "deploy.toml").write_text(text.replace("cross_site = false", "cross_site = true"))
    assert fedloom("explain", deploy / "server" / "config.toml").stdout != plain


def test_explain_refuses_a_file_that_is_not_there(fedloom):
    assert "there is no configuration file none.toml" in refusal(fedloom("explain", "none.toml"))


# -- status and stop


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


def test_certificates_are_warned_of_for_a_month_and_renewed_by_a_command(deploy, fedloom):
    assert fedloom("renew", deploy, "--days", "30").returncode == 0
    for folder in ("server", "north"):
        assert "expires on 20" in (text := fedloom("status", deploy / folder).stdout)
        assert ", in 29 days: " in text
    renewed = fedloom("renew", deploy)
    assert f"north: {deploy / 'server/renewed/north'}/{{client.pem,ca.crt,signature.json}}" in renewed.stdout
    assert "The server uses its new certificate when it is started." in renewed.stdout
    assert "certificates: valid for 364 more days" in fedloom("status", deploy / "server").stdout


def test_a_site_is_revoked_and_added_again_by_commands(deploy, fedloom, tmp_path):
    assert fedloom("revoke", "north", deploy).stdout.startswith("north is revoked: the server refuses it when it is")
    assert "  north: revoked at 20" in fedloom("status", deploy / "server").stdout
    (deploy / "north").rename(tmp_path / "old")
    added = fedloom("add", "north", deploy).stdout
    assert "Give the folder to north alone. It takes part from the next round on." in added
    assert "  north: not connected" in fedloom("status", deploy / "server").stdout
    assert "there is no site 'x'" in refusal(fedloom("revoke", "x", deploy))


def test_a_site_requests_its_certificate(deploy, fedloom, tmp_path):
    assert fedloom("request", tmp_path / "south").stdout.splitlines()[0] == str(tmp_path / "south/request.json")
    fedloom("revoke", "south", deploy)
    (deploy / "south").rename(tmp_path / "old")
    assert fedloom("add", "south", deploy, "--request", tmp_path / "south/request.json").returncode == 0
    assert not (deploy / "south/client.key").exists()


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
        "run: not at work, 2 rounds done",
        "  global_model/global_test/accuracy: 0.75",
        "  round 2: south left out of 'update': reply/row has numbers that are not finite",
        "the run stopped: round 3 was abandoned",
    ]
    (run / "outcome.json").write_text(json.dumps({"stopped": None}))
    assert fedloom("status", deploy / "server").stdout.splitlines()[-1] == "the run is finished"


@pytest.mark.parametrize("who", ["server", "north"])
def test_stop_with_nothing_running_says_so(deploy, fedloom, who):
    done = fedloom("stop", deploy / who)
    assert (done.returncode, done.stdout) == (0, "nothing was running\n")


# -- refusals


@pytest.mark.parametrize("verb", ["server", "client", "run", "status", "stop"])
def test_a_folder_of_nobody_is_refused(tmp_path, fedloom, verb):
    pytest.importorskip("flwr", reason="Flower is not installed: nothing is started")
    (tmp_path / "empty").mkdir()
    assert "empty is " in refusal(fedloom(verb, "empty"))
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_run_without_its_server_is_refused(deploy, fedloom):
    pytest.importorskip("flwr", reason="Flower is not installed: nothing is started")
    text = refusal(fedloom("run", deploy / "server", "--json"))
    assert "the server is not running: start it with  fedloom deploy server" in text
    assert not (deploy / "server" / "run").exists()


def test_a_misspelt_setting_is_named(deploy, fedloom):
    path = deploy / "north" / "site.toml"
    path.write_text(path.read_text().replace("port = ", "prot = "))
    assert "prot" in refusal(fedloom("status", deploy / "north"))


def test_the_help_lists_the_commands_in_the_order_of_use():
    text = CliRunner().invoke(app, ["--help"]).stdout
    places = [text.index(f"fedloom deploy {verb}") for verb in ("init", "explain", "server", "client", "run")]
    assert places == sorted(places)


# -- audit


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
