"""A deployment of fedloom 0.5.0: every command says the one step that it needs, and after it a stopped run goes on.

``version_0_5`` was written by that version (support/make_version_0_5.py) without its keys, which are made anew here as
0.5.0 left them: no signature, and no certificates of sites at the server.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fedloom.core.errors import FedloomError
from fedloom.registry.validation import read_toml

pytest.importorskip("cryptography", reason="cryptography is not installed: no folders are made")
pytest.importorskip("flwr", reason="Flower is not installed: no deployment is run")

from fedloom.cli.app import app
from fedloom.deploy.earlier_folder import upgrade_step
from fedloom.deploy.flower.control import public_key
from fedloom.deploy.operate.commands import run
from fedloom.deploy.operate.run_server import run_server
from fedloom.deploy.operate.run_site import run_site
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.earlier_digest import earlier_digest
from fedloom.deploy.provision import folders, membership
from fedloom.deploy.provision.signature import check_signature
from fedloom.deploy.saved_model import load_model
from fedloom.deploy.server.serve import serve
from fedloom.deploy.settings import load_server, load_site
from fedloom.deploy.site.process import SiteProcess
from support.command_line import output
from support.local_transport import LocalTransport, quick

pytestmark = pytest.mark.usefixtures(quick.__name__)
WRITTEN, SITES = Path(__file__).parent / "version_0_5", ["north", "south"]
KEYS = ("*.key", "*.pem", "*.crt", "keys/*.pub")
TORCH = read_toml(WRITTEN / "stopped/deploy/server/run/config.toml")["made_by"]["torch"]
RENEW = r"was made by fedloom 0\.5\.0, which signed no folders: run fedloom deploy renew once"
ASK = r"was made by fedloom 0\.5\.0, which signed no folders: ask the operator for this site's three files"


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("keys")
    (root / "run.toml").write_bytes((WRITTEN / "stopped" / "run.toml").read_bytes())
    folders.init(root / "run.toml", root / "deploy", SITES, rehearsal=True)
    return root / "deploy"


@pytest.fixture
def deploy(keys, tmp_path) -> Path:
    place = Path(shutil.copytree(WRITTEN / "stopped" / "deploy", tmp_path / "deploy"))
    for path in (path for pattern in KEYS for path in keys.glob(f"*/{pattern}")):
        to = place / path.relative_to(keys)
        if to.parent.name != "keys" or path.suffix == ".pub":  # 0.5.0's server had no certificates of sites
            to.parent.mkdir(exist_ok=True)
            shutil.copy(path, to)
    return place


def test_every_command_says_the_step_of_a_folder_of_0_5(deploy):
    server, site = deploy / "server", deploy / "north"
    for refused in (
        lambda: run_server(server, print),
        lambda: run(server, print, print),
        lambda: membership.add("east", deploy),
        lambda: membership.revoke("north", deploy),
    ):
        with pytest.raises(FedloomError, match=RENEW):
            refused()
    with pytest.raises(FedloomError, match=ASK):
        run_site(site, print)
    for command in ("status", "audit", "explain"):
        for folder, step in ((server, upgrade_step(server)), (site, upgrade_step(site))):
            assert step in output(app, "deploy", command, folder), command


def test_one_renewal_brings_all_folders_to_today(deploy):
    membership.renew(deploy)
    for name in ("server", *SITES):
        assert upgrade_step(deploy / name) == ""
        check_signature(deploy / name)
    assert Blueprint.load(deploy / "server").digest == Blueprint.load(deploy / "north").digest
    load_server(deploy / "server"), load_site(deploy / "north")


def test_a_deployment_that_is_older_is_not_taken_over(deploy):
    for path in deploy.glob("*/config.toml"):
        path.write_text(path.read_text().replace('fedloom = "0.5.0"', 'fedloom = "0.4.0"'))
    older = (
        r"made by fedloom 0\.4\.0, whose deployments .* does not take over: make new folders with fedloom deploy init"
    )
    with pytest.raises(FedloomError, match=older):
        membership.renew(deploy)
    with pytest.raises(FedloomError, match=older):
        run_site(deploy / "north", print)


@pytest.mark.parametrize(
    ("folder", "file", "read"), [("server", "deploy.toml", load_server), ("north", "site.toml", load_site)]
)
def test_settings_of_a_newer_format_are_refused(deploy, folder, file, read):
    path = deploy / folder / file
    path.write_text(f"format = 2\nmore = 1\n{path.read_text()}")
    with pytest.raises(
        FedloomError, match=r"written by a newer Fedloom .*format 2, this one knows 1.*: upgrade Fedloom"
    ):
        read(deploy / folder)


def test_the_digest_that_0_5_had_of_the_run_follows_from_its_files(deploy):
    noted = read_toml(deploy / "server" / "run" / "config.toml")["made_by"]["task"]
    assert earlier_digest(deploy / "server") == noted
    schema = deploy / "server" / "schema.json"
    schema.write_text(schema.read_text().replace("0.3053", "0.3054"))
    assert earlier_digest(deploy / "server") != noted


@pytest.fixture
def transport(deploy) -> LocalTransport:
    sites = {client: SiteProcess.open(deploy / name) for client, name in enumerate(SITES)}
    made = LocalTransport({client: site.answer for client, site in sites.items()})
    made.keys = {client: public_key(deploy / "server/keys" / f"{name}.pub") for client, name in enumerate(SITES)}
    return made


@pytest.mark.skipif(torch.__version__ != TORCH, reason=f"the run was started with torch {TORCH}")
def test_a_stopped_run_of_0_5_goes_on_with_the_states_that_its_sites_kept(deploy, transport):
    membership.renew(deploy)
    serve(transport, deploy / "server")
    ours, theirs = deploy / "server/run", WRITTEN / "whole/deploy/server/run"
    assert json.loads((ours / "outcome.json").read_text()) == {"stopped": None}
    last = "checkpoints/round-000004.safetensors"
    found = load_file(ours / last)
    for name, tensor in load_file(theirs / last).items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)
    rounds = [[json.loads(line) for line in (at / "metrics.jsonl").read_text().splitlines()] for at in (ours, theirs)]
    assert [record["round"] for record in rounds[0]] == [record["round"] for record in rounds[1]]
    assert not any(record.get("excluded") for record in rounds[0])


@pytest.mark.skipif(torch.__version__ != TORCH, reason=f"the run was started with torch {TORCH}")
def test_a_run_of_0_5_does_not_go_on_with_another_blueprint(deploy, transport):
    config = deploy / "server" / "config.toml"
    config.write_text(config.read_text().replace("lr = 0.1", "lr = 0.2"))
    for name in SITES:
        shutil.copy(config, deploy / name / "config.toml")
    for client, name in enumerate(SITES):
        transport.sites[client] = SiteProcess.open(deploy / name).answer
    serve(transport, deploy / "server")
    said = json.loads((deploy / "server/run/outcome.json").read_text())["error"]
    assert "only fedloom 0.5.0 can resume it to the same bytes" in said


def test_a_model_that_0_5_saved_is_read():
    model = load_model(WRITTEN / "model")
    assert (model.about.fedloom, model.about.client, model.about.round) == ("0.5.0", "north", 4)
