"""The audit of a plan: what is found depends on what the plan, the server's settings and the site's policy say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from fedloom.core.errors import FedloomError
from fedloom.deploy.plan_audit import find_weaknesses
from fedloom.deploy.settings import PolicySettings, ServerSettings, SiteData, SiteSettings, to_toml
from fedloom.deploy.weaknesses import SEVERITIES
from support.local_transport import NAMES, blueprint

NOISE = {"channel": [{"name": "localnoise", "noise": 4.0, "epsilon": 8.0}], "eval_every": 0}


def server_folder(folder: Path, run: dict[str, Any] | None = None, **settings: Any) -> Path:
    blueprint("fedavg", **run or {}).save(folder, server=True)
    (folder / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=list(NAMES), **settings)))
    return folder


def site_folder(folder: Path, run: dict[str, Any] | None = None, **policy: Any) -> Path:
    blueprint("fedavg", **run or {}).save(folder, server=False)
    site = SiteSettings(name="south", client=1, data=SiteData(path="own.csv"), policy=PolicySettings(**policy))
    (folder / "site.toml").write_bytes(to_toml(site))
    return folder


def told(folder: Path) -> dict[str, str]:
    """What is found, with its severity."""
    return {one.what: one.severity for one in find_weaknesses(folder)}


def severity(found: dict[str, str], *words: str) -> str | None:
    """The severity of what has some words; None if it was not found."""
    return next((level for what, level in found.items() if all(word in what for word in words)), None)


def test_a_plain_plan_lets_the_server_read_single_updates(tmp_path):
    found = find_weaknesses(server_folder(tmp_path))
    assert found[0].severity == "high"
    assert "sees every site's update" in found[0].what
    levels = [SEVERITIES.index(one.severity) for one in found]
    assert levels == sorted(levels)
    assert all(one.could and one.advice for one in found)


def test_sums_hide_single_updates_and_are_asked_their_own_questions(tmp_path):
    found = told(server_folder(tmp_path, {"channel": ["securesum"]}))
    assert severity(found, "sees every site's update") is None
    assert severity(found, "no noise is in them") == "medium"
    assert severity(found, "colluders = 0") == "medium"
    assert severity(found, "least_clients") == "medium"
    assert severity(found, "nobody can compare") == "medium"
    step = {"name": "securesum", "dropouts": 0.2, "colluders": 0.3, "least_clients": 3}
    careful = told(server_folder(tmp_path / "careful", {"channel": [step]}))
    assert severity(careful, "colluders = 0") is None
    assert severity(careful, "least_clients") is None


@pytest.mark.parametrize(
    ("noise", "words", "level"),
    [
        ({"noise": 4.0, "epsilon": 8.0}, ("localnoise",), None),
        ({"noise": 4.0}, ("no budget",), "low"),
        ({"noise": 0.2}, ("weak",), "medium"),
    ],
)
def test_noise_is_judged_by_its_strength_and_its_budget(tmp_path, noise, words, level):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    found = told(site_folder(tmp_path, {**NOISE, "channel": [{"name": "localnoise", **noise}]}))
    assert severity(found, "sees every site's update") is None
    assert severity(found, *words) == level


def test_a_rule_and_the_servers_settings_answer_questions(tmp_path):
    plain = told(server_folder(tmp_path / "plain"))
    assert severity(plain, "no rule withstands") == "medium"
    assert severity(plain, "min_clients = 1") == "medium"
    assert severity(plain, "max_share = 1") == "low"
    run = {"aggregation": "normbounding", "eval_every": 0, "weight_by": "uniform"}
    careful = told(server_folder(tmp_path / "careful", run, min_clients=2))
    for words in ("no rule withstands", "min_clients", "max_share", "losses and scores"):
        assert severity(careful, words) is None
    assert severity(told(server_folder(tmp_path / "cross", cross_site=True)), "cross_site") == "medium"
    assert severity(told(server_folder(tmp_path / "bare", proxy=False)), "proxy = false") == "medium"


def test_a_site_is_asked_about_its_own_policy(tmp_path):
    run = {"channel": ["securesum"]}
    open_site = told(site_folder(tmp_path / "open", run, model=True))
    assert severity(open_site, "policy does not ask") == "medium"
    assert severity(open_site, "10 more runs") == "low"
    assert severity(open_site, "model = true") == "medium"
    careful = told(
        site_folder(tmp_path / "careful", run, channel=[{"name": "securesum"}], new_runs=0, evaluation=False)
    )
    for words in ("policy does not ask", "more runs", "model = true", "losses and scores"):
        assert severity(careful, words) is None


def test_an_approver_is_seen(tmp_path):
    assert severity(told(server_folder(tmp_path)), "operator alone") == "low"
    (tmp_path / "approver.pem").write_text("a key")
    assert severity(told(tmp_path), "operator alone") is None


def test_a_folder_without_a_plan_is_refused(tmp_path):
    (tmp_path / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["a"])))
    with pytest.raises(FedloomError, match=r"has no config\.toml"):
        find_weaknesses(tmp_path)


def test_code_that_a_plan_names_runs_only_if_it_is_trusted(tmp_path):
    folder, own, ran = server_folder(tmp_path / "server"), tmp_path / "own.py", tmp_path / "ran"
    own.write_text(
        f"import pathlib\nimport fedloom as fl\npathlib.Path({str(ran)!r}).touch()\nclass Mine(fl.FedAvg): ...\n"
    )
    config = tomllib.loads((folder / "config.toml").read_text())
    (folder / "config.toml").write_bytes(tomli_w.dumps({**config, "method": {"name": f"{own}:Mine"}}).encode())
    with pytest.raises(FedloomError, match="--trust"):
        find_weaknesses(folder)
    assert not ran.exists()
    assert find_weaknesses(folder, (str(own),))
    assert ran.exists()
