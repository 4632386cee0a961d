"""``fedloom deploy init``, ``explain`` and ``request``, and one sentence for what cannot be."""

from __future__ import annotations

import pytest

from fedloom.deploy.settings import load_server, load_site
from support.command_line import refusal


def test_init_writes_what_was_asked_for(deploy_folder):
    settings = load_server(deploy_folder / "server")
    assert (settings.sites, settings.evaluator) == (["north", "south"], "judge")
    assert (settings.port, settings.control_port, settings.proxy) == (9443, 9000, True)
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
def test_init_refuses_in_one_sentence_and_leaves_nothing(tmp_path, fedloom, run_file, words, says):
    (tmp_path / "central.toml").write_text(run_file.read_text().replace("fedavg", "centralised"))
    (tmp_path / "wrong.toml").write_text(run_file.read_text().replace("rounds", "roundz"))
    before = sorted(tmp_path.iterdir())
    assert says in refusal(fedloom("init", *words, "--out", "d"))
    assert sorted(tmp_path.iterdir()) == before


def test_init_never_overwrites(fedloom, run_file, deploy):
    before = {path: path.read_bytes() for path in deploy.rglob("*") if path.is_file()}
    assert str(deploy.name) in refusal(fedloom("init", run_file, "--clients", "a,b", "--out", "d"))
    assert {path: path.read_bytes() for path in deploy.rglob("*") if path.is_file()} == before


def test_explain_tells_the_same_of_the_run_file_and_of_a_participants_config(deploy, run_file, fedloom):
    result = fedloom("explain", run_file)
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


def test_a_site_requests_its_certificate(deploy, fedloom, tmp_path):
    assert fedloom("request", tmp_path / "south").stdout.splitlines()[0] == str(tmp_path / "south/request.json")
    fedloom("revoke", "south", deploy)
    (deploy / "south").rename(tmp_path / "old")
    assert fedloom("add", "south", deploy, "--request", tmp_path / "south/request.json").returncode == 0
    assert not (deploy / "south/client.key").exists()
