"""What is explained of a site's folder is what its policy does, and is found without the code that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedloom.cli.app import app
from fedloom.core.errors import FedloomError
from fedloom.deploy.explanation_text import REQUESTS, explain_path
from fedloom.deploy.settings import PolicySettings, ServerSettings, SiteData, SiteSettings, to_toml
from fedloom.deploy.site.process import SiteProcess
from support.command_line import output
from support.local_transport import NAMES, blueprint

PRIVATE: dict[str, dict[str, Any]] = {
    "localnoise": {"channel": [{"name": "localnoise", "noise": 4.0}]},
    "privatesum": {"channel": [{"name": "privatesum", "noise": 4.0}]},
    "sample_privacy": {"sample_privacy": {"noise": 1.0}},
}


def site_folder(folder: Path, spec: str = "scaffold", run: dict[str, Any] | None = None, **policy: Any) -> Path:
    blueprint(spec, **run or {}).save(folder, server=False)
    data = SiteData(rehearsal=True)
    settings = SiteSettings(name="south", client=1, data=data, policy=PolicySettings(**policy))
    (folder / "site.toml").write_bytes(to_toml(settings))
    return folder


def test_a_sites_folder_is_explained_with_its_policy(tmp_path):
    folder = site_folder(tmp_path, rounds=2, evaluation=False, tensors={"scaffold": ["change"]})
    text = output(app, "deploy", "explain", folder)
    site = SiteProcess.open(folder)
    assert "What leaves a site and what reaches it: scaffold on digits, 3 sites, 3 rounds." in text
    assert f"This site's policy, for the run {site.blueprint.digest} (scaffold on digits)" in text
    assert "takes part in 2 rounds" in text
    for kind, words in REQUESTS.items():  # by the code that enforces it
        if kind == "sum":  # this run has none
            assert words not in text
            continue
        assert f"  {'refuses' if site.policy.forbids(kind) else 'allows '} {words}" in text
    assert "  lets go change (" in text
    assert "  keeps   c_change (" in text or "may not leave" in text
    assert "sends NaN instead of the scores" in text


@pytest.mark.parametrize("run", PRIVATE.values(), ids=PRIVATE)
def test_a_private_run_is_explained_without_scores(tmp_path, run):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    text = explain_path(site_folder(tmp_path, "fedavg", run, model=True))
    for kind in ("ask", "score", "global", "judge", "model"):
        assert f"  refuses {REQUESTS[kind]}: scores and models of its own have no noise" in text
    assert f"  allows  {REQUESTS['update']}" in text
    assert "sends NaN instead of the scores" in text


@pytest.mark.parametrize("step", ["securesum", "privatesum"])
def test_what_a_sum_does_not_hide_is_explained(tmp_path, step):
    pytest.importorskip("dp_accounting", reason="needs dp-accounting")
    run = {"channel": [{"name": step, "least_clients": 3}]}
    text = " ".join(explain_path(site_folder(tmp_path, "fedavg", run)).split())
    assert "the sum of the changes of at least 3 sites, and no single one" in text
    assert ("Against this only noise helps (privatesum)" in text) == (step == "securesum")
    assert ("The sum has the sites' own noise" in text) == (step == "privatesum")


def test_that_the_server_reads_the_models_inside_chains_is_explained(tmp_path):
    text = explain_path(site_folder(tmp_path, "fedseq:grouping=random"))
    assert "through the server, which can read them" in text
    assert "What the sum hides" not in text


def test_who_reads_what_in_encrypted_chains_is_explained(tmp_path):
    text = " ".join(explain_path(site_folder(tmp_path, "fedseq:chains=[[0,1,2]],encrypt=true")).split())
    assert "through the server, which cannot read them" in text
    assert "which can read them" not in text
    assert "The server reads the model at the end of each chain" in text
    assert "the model of the site before it, sealed" in text
    assert "lets go relay" in text


def test_a_run_that_the_policy_refuses_is_explained_so(tmp_path):
    text = explain_path(site_folder(tmp_path, methods=["fedavg"]))
    assert "refuses the whole run: it takes part in the method fedavg, and this run's is scaffold." in text


def test_code_that_a_folder_names_is_run_only_if_it_is_trusted(tmp_path):
    marker, own = tmp_path / "marker", tmp_path / "own.py"
    own.write_text(f"import fedloom as fl\nopen({str(marker)!r}, 'w')\n\n\nclass Mine(fl.FedAvg):\n    pass\n")
    (tmp_path / "run.toml").write_text(
        f'[task]\nname = "digits"\nclients = 3\nmodel = "logistic"\n[method]\nname = "{own}:Mine"\n'
    )
    with pytest.raises(FedloomError, match=r"run.toml names code, the method .* name it yourself with --trust own.py"):
        explain_path(tmp_path / "run.toml")
    assert not marker.exists()
    assert "What leaves a site" in explain_path(tmp_path / "run.toml", [str(own)])
    assert marker.exists()


@pytest.mark.parametrize("who", ["site", "server"])
def test_a_participants_folder_is_explained_with_the_file_that_its_refusal_asks_for(tmp_path, monkeypatch, caplog, who):
    source = "from torch import nn\n\n\ndef net(inputs, classes):\n    return nn.Sequential(nn.Flatten(), "
    source += "nn.Linear(inputs, classes))\n"
    own, folder = tmp_path / "net.py", tmp_path / who
    own.write_text(source)
    task = {"name": "digits", "clients": 3, "models": {f"{own}:net": [0, 1], "logistic": [2]}}
    if who == "site":
        site_folder(folder, "local", {"task": task})
    else:
        blueprint("local", task=task).save(folder, server=True)
        (folder / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["north", "south", "west"])))
    own.unlink()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FedloomError, match=rf"the model '{folder / 'net.py'}:net'.* yourself with --trust net.py\.$"):
        output(app, "deploy", "explain", folder)
    assert "What leaves a site" in output(app, "deploy", "explain", folder, "--trust", folder / "net.py")
    own.write_text(source)
    assert "What leaves a site" in output(app, "deploy", "explain", folder, "--trust", "net.py")
    assert not caplog.records
    own.write_text(source + "# another\n")
    output(app, "deploy", "explain", folder, "--trust", "net.py")
    assert "net.py is not the file that the run was started with" in caplog.text


def test_the_limits_of_the_server_are_explained_before_anything_is_sent(tmp_path):
    blueprint().save(tmp_path, server=True)
    (tmp_path / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=list(NAMES))))
    usual = output(app, "deploy", "explain", tmp_path)
    assert "What the server limits (deploy.toml)" in usual
    assert "a site counts with all of its training samples, as in the simulation (max_share = 1)" in usual
    assert "more than 50 times as large as usual is refused (max_ratio)" in usual
    changed = ServerSettings(sites=list(NAMES), max_share=0.4, sizes={"west": 1000}, max_norm=7, max_ratio=60)
    (tmp_path / "deploy.toml").write_bytes(to_toml(changed))
    text = output(app, "deploy", "explain", tmp_path)
    assert "a site counts with at most 40 % of all training samples (max_share)" in text
    assert "west counts with 1,000 training samples at most ([sizes])" in text
    assert "further than 7 from the one sent is refused (max_norm)" in text
    assert "more than 60 times as large as usual is refused (max_ratio)" in text


def test_no_limit_on_single_updates_is_explained_where_only_their_sum_is_seen(tmp_path):
    blueprint(channel=[{"name": "securesum"}]).save(tmp_path, server=True)
    (tmp_path / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=list(NAMES))))
    text = output(app, "deploy", "explain", tmp_path)
    assert "updates are not compared with each other" in text
    assert "max_ratio" not in text
