"""``deploy init``: a folder per participant, complete, with nobody else's secrets, or nothing at all."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.provision import folders, readmes
from fedloom.deploy.settings import (
    PolicySettings,
    RequiredStep,
    ServerSettings,
    SiteData,
    SiteSettings,
    load_server,
    load_site,
)

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

from fedloom.deploy.provision import certificates

SITES = ("north", "south.2", "east_3")
RUN = """\
rounds = 2
[task]
name = "digits"
clients = 3
model = "logistic"
[local]
lr = 0.25
[method]
name = "FedProx"
"""
COMMON = {
    "signature.json",
    "fedloom.service",
    "ca.crt",
    "config.toml",
    "schema.json",
    "initial.safetensors",
    "start.sh",
    "README.md",
}
SITE = COMMON | {"audit.jsonl", "client.pem", "client.key", "node.key", "site.toml"}
SERVER = COMMON | {"audit.jsonl", "server.pem", "server.key", "deploy.toml", "nginx.conf", "global.safetensors"}


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.toml"
    path.write_text(RUN)
    return path


@pytest.fixture(scope="module")
def deploy_folder(run_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "deploy"
    folders.init(run_file, out, SITES, evaluator="judge", host="hub.example.org", port=9443)
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everyone_has_a_folder_with_what_they_need_and_no_more(deploy_folder):
    assert {path.name for path in deploy_folder.iterdir()} == {"authority", "server", *SITES, "judge"}
    signed = {f"signed/{name}.json" for name in (*SITES, "judge")}
    assert set(files(deploy_folder / "authority")) == {"ca.key", "ca.crt", "README.md"} | signed
    public = {f"keys/{name}.{kind}" for name in (*SITES, "judge") for kind in ("pub", "pem")}
    assert set(files(deploy_folder / "server")) == SERVER | public
    for name in (*SITES, "judge"):
        assert set(files(deploy_folder / name)) == SITE


def test_the_folders_are_named_in_the_order_of_the_sites(run_file, tmp_path):
    out = tmp_path / "new" / "deploy"
    assert folders.init(run_file, out, SITES) == [out / name for name in ("server", *SITES)]
    assert [path.name for path in out.parent.iterdir()] == ["deploy"]  # the draft is gone


def test_no_secret_lies_in_two_folders(deploy_folder):
    """No private key's bytes, not even a line of one, are found below another participant's folder."""
    owners = {path.name: files(path) for path in deploy_folder.iterdir()}
    secrets = {(owner, name): data for owner, held in owners.items() for name, data in held.items() if ".key" in name}
    assert len(secrets) == 2 + 2 * 4
    for (owner, _), data in secrets.items():
        lines = [line for line in data.splitlines() if not line.startswith(b"-----")]
        telling = max(lines[1:], key=len)  # the first line of a key names its kind: it is the same in all
        for other, held in owners.items():
            assert any(telling in found for found in held.values()) == (other == owner)


def test_private_files_are_for_their_owner_only(deploy_folder):
    for path in deploy_folder.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir() or b"PRIVATE KEY" in path.read_bytes():
            assert mode & 0o077 == 0, path
        if path.suffix == ".key":
            assert mode == 0o600


def test_the_certificates_are_good_and_the_nodes_keys_fit(deploy_folder):
    certificates.check_certificates(deploy_folder / "server")
    for name in (*SITES, "judge"):
        certificates.check_certificates(deploy_folder / name)
        private = load_ssh_private_key((deploy_folder / name / "node.key").read_bytes(), None)
        public_key = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        assert (deploy_folder / "server/keys" / f"{name}.pub").read_bytes().strip() == public_key
        subject = certificates.load_certificate(deploy_folder / name / "client.pem").subject
        assert subject.rfc4514_string() == f"CN={name}"


def test_the_settings_say_who_is_who(deploy_folder):
    server = load_server(deploy_folder / "server")
    assert server == ServerSettings(sites=list(SITES), evaluator="judge", host="hub.example.org", port=9443)
    for number, name in enumerate((*SITES, "judge")):
        assert load_site(deploy_folder / name) == SiteSettings(name=name, client=number, server="hub.example.org:9443")


def test_everyone_has_the_same_run(deploy_folder):
    blueprints = [Blueprint.load(deploy_folder / name) for name in ("server", *SITES, "judge")]
    assert len({blueprint.digest for blueprint in blueprints}) == 1
    assert blueprints[0].sites == SITES
    assert blueprints[0].config.method["name"] == "fedprox"
    work = blueprints[0].config.local
    assert work is not None
    assert (work.lr, work.batch_size) == (0.25, 32)  # the file's own, and the task's


def test_a_rehearsal_is_said_in_the_sites_settings(run_file, tmp_path):
    folders.init(run_file, tmp_path / "d", SITES, rehearsal=True)
    assert load_site(tmp_path / "d/north").data == SiteData(rehearsal=True)
    assert "This is a rehearsal" in (tmp_path / "d/north/README.md").read_text()


def test_without_a_proxy_there_is_none_and_the_operator_is_told(run_file, tmp_path):
    folders.init(run_file, tmp_path / "d", SITES, proxy=False)
    assert not (tmp_path / "d/server/nginx.conf").exists()
    assert not (tmp_path / "d/server/proxy").exists()
    assert "There is no proxy" in (tmp_path / "d/server/README.md").read_text()


def test_nothing_names_the_place_where_it_was_made(deploy_folder):
    for path, data in files(deploy_folder).items():
        assert str(deploy_folder).encode() not in data, path


@pytest.mark.parametrize(("name", "word"), [("server", "server"), ("north", "client")])
def test_the_starter_works_from_anywhere_after_the_folder_was_moved(deploy_folder, tmp_path, name, word):
    moved = tmp_path / "a place" / "-x"
    moved.parent.mkdir()
    subprocess.run(["cp", "-r", deploy_folder / name, moved], check=True)
    program = tmp_path / "bin" / "fedloom"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\npwd; echo "$@"\n')
    program.chmod(0o755)
    result = subprocess.run(
        ["./-x/start.sh"], cwd=moved.parent, env={"PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.splitlines() == [str(moved), f"deploy {word} ."]


STRICT = PolicySettings(
    runs=["fedavg on own"],
    rounds=3,
    tensors={"scaffold": ["change"]},
    channel=[RequiredStep(name="topk", most={"fraction": 0.5})],
)


def test_every_setting_has_a_comment_and_comments_change_nothing():
    for settings, text in (
        (server := ServerSettings(sites=["a"]), readmes.server_toml(server)),
        (full := ServerSettings(sites=["a"], evaluator="b", max_norm=2.0), readmes.server_toml(full)),
        (site := SiteSettings(name="a", client=0, data=SiteData(path="x.csv")), readmes.site_toml(site)),
        (strict := SiteSettings(name="a", client=0, policy=STRICT), readmes.site_toml(strict)),
    ):
        assert type(settings)(**tomllib.loads(text)) == settings
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if re.match(r"\w+ = ", line) and not line.startswith(
                ("client", "scaffold")
            ):  # explained with what is above
                assert lines[number - 1].startswith("# "), line
    assert set(readmes.SERVER_NOTES) == set(ServerSettings.model_fields)
    sections = (SiteSettings, PolicySettings, SiteData)
    assert set(readmes.SITE_NOTES) == {name for kind in sections for name in kind.model_fields} - {"client"}


def test_an_unset_setting_is_shown_as_an_example_that_can_be_switched_on():
    text = readmes.site_toml(SiteSettings(name="a", client=0)).replace('# path = "data.csv"', 'path = "data.csv"')
    assert SiteSettings(**tomllib.loads(text)).data.path == "data.csv"
    text = readmes.site_toml(SiteSettings(name="a", client=0))
    for key in ("runs", "methods", "rounds", "repeats", "tensors", "channel"):
        text = text.replace(f"# {key} = ", f"{key} = ")
    policy = SiteSettings(**tomllib.loads(text)).policy
    assert (policy.rounds, policy.tensors) == (100, {"scaffold": ["change"]})
    text = readmes.server_toml(ServerSettings(sites=["a"])).replace("# max_norm = ", "max_norm = ")
    assert ServerSettings(**tomllib.loads(text)).max_norm == 10.0


def test_a_sites_readme_says_what_its_reader_needs(deploy_folder):
    text = (deploy_folder / "north/README.md").read_text()
    for word in ("north", "hub.example.org:9443", "site.toml", "./start.sh", "fedprox", "client.key", "node.key"):
        assert word in text
    judge = (deploy_folder / "judge/README.md").read_text()
    assert "never trains" in judge
    assert "model parameters" not in judge
    server = (deploy_folder / "server/README.md").read_text()
    assert "Open port 9443" in server
    assert "server.key" in server


def test_lines_of_readmes_fit_a_window(deploy_folder):
    for path in deploy_folder.glob("*/README.md"):
        assert max(map(len, path.read_text().splitlines())) <= 120, path


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sites": []}, "at least one site"),
        ({"sites": ["a", "b", "a"]}, "'a' is given twice"),
        ({"sites": ["a", "b", "A"]}, "'A' is given twice"),
        ({"sites": ["a", "b", "c"], "evaluator": "b"}, "'b' is given twice"),
        ({"sites": ["a", "b", "server"]}, "'server': that name is"),
        ({"sites": ["a", "b", "Authority"]}, "'Authority': that name is"),
        ({"sites": ["a", "b", ".."]}, "site name '..'"),
        ({"sites": ["a", "b", "../c"]}, "site name '../c'"),
        ({"sites": ["a", "b", ""]}, "site name ''"),
        ({"sites": ["a", "b", "c d"]}, "site name 'c d'"),
        ({"sites": ["a", "b", "c\n"]}, "site name 'c\\n'"),
        ({"sites": ["a", "b", "-c"]}, "site name '-c'"),
        ({"sites": ["a", "b", "c" * 65]}, "up to 64"),
        ({"evaluator": "x/y"}, "site name 'x/y'"),
        ({"sites": ["a", "b"]}, "2 sites are named, but the task has 3 clients"),
        ({"host": "hub:80"}, "host='hub:80'"),
        ({"host": "0.0.0.0"}, "host='0.0.0.0'"),  # noqa: S104
        ({"host": "1.2.3"}, "host='1.2.3'"),
        ({"host": ""}, "host=''"),
        ({"host": "a; b"}, "host='a; b'"),
        ({"port": 0}, "port=0"),
        ({"port": 8000}, "port 8000 is given twice"),
        ({"control_port": 8443}, "port 8443 is given twice"),
        ({"days": 0}, "days=0"),
        ({"days": 10**9}, "days=1000000000"),
        ({"run_file": Path("none.toml")}, "no configuration file none.toml"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_and_leaves_nothing(run_file, tmp_path, change, sentence):
    arguments = {"run_file": run_file, "out": tmp_path / "d", "sites": SITES, **change}
    with pytest.raises(FedloomError, match=re.escape(sentence)):
        folders.init(**arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_never_touched(run_file, tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(FedloomError, match="exists already"):
        folders.init(run_file, tmp_path / "d", SITES)
    assert list((tmp_path / "d").iterdir()) == []
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FedloomError, match="exists already"):
        folders.init(run_file, tmp_path / "link", SITES)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (OSError(28, "No space left on device"), (FedloomError, "d cannot be written .No space left on device")),
        (FedloomError("a reason"), (FedloomError, "a reason")),
        (KeyboardInterrupt("stopped"), (KeyboardInterrupt, "stopped")),
    ],
)
def test_what_fails_half_way_leaves_nothing(run_file, tmp_path, monkeypatch, fault, message):
    def fail(*_, **__):
        assert [path.name for path in next(tmp_path.iterdir()).iterdir()]  # something was written
        raise fault

    monkeypatch.setattr(readmes, "site_readme", fail)
    with pytest.raises(message[0], match=message[1]):
        folders.init(run_file, tmp_path / "d", SITES)
    assert list(tmp_path.iterdir()) == []


def test_an_address_with_colons_is_written_in_brackets(run_file, tmp_path):
    folders.init(run_file, tmp_path / "d", SITES, host="2001:db8::7")
    assert load_site(tmp_path / "d/north").server == "[2001:db8::7]:8443"
    certificates.check_certificates(tmp_path / "d/server")
