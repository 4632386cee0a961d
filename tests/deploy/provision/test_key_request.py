"""A site makes its keys itself: the operator gets a request, and never a private key."""

from __future__ import annotations

import json
import shutil
import stat

import pytest

from fedloom.core.errors import FedloomError

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.certificates import check_certificates
from fedloom.deploy.provision.change_files import finish_change
from fedloom.deploy.provision.key_request import read_request, write_request
from fedloom.deploy.settings import SiteSettings, to_toml
from support.kills import kills


@pytest.fixture
def site(tmp_path):
    write_request(tmp_path / "north", "north")
    return tmp_path / "north"


def test_a_request_has_the_public_halves_of_keys_that_stay_at_the_site(site):
    assert {path.name for path in site.iterdir()} == {"client.key", "node.key", "request.json"}
    request, text = read_request(site / "request.json"), (site / "request.json").read_text()
    assert request.site == "north"
    assert request.key == load_pem_private_key((site / "client.key").read_bytes(), None).public_key()
    node = load_ssh_private_key((site / "node.key").read_bytes(), None).public_key()
    assert request.node_key.strip() == node.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    assert "PRIVATE" not in text
    for name in ("client.key", "node.key"):
        assert stat.S_IMODE((site / name).stat().st_mode) == 0o600


def test_a_certificate_of_a_request_fits_the_sites_keys(site):
    authority = Authority.new(3)
    (site / "client.pem").write_bytes(authority.sign_site(read_request(site / "request.json").key, "north"))
    authority.publish(site)
    (site / "site.toml").write_bytes(to_toml(SiteSettings(name="north", client=0)))
    check_certificates(site)


def test_keys_that_are_there_are_never_overwritten(site):
    before = (site / "client.key").read_bytes()
    with pytest.raises(FedloomError, match="exists already: a request needs a folder without keys"):
        write_request(site, "north")
    assert (site / "client.key").read_bytes() == before


@pytest.mark.parametrize("field", ["site", "certificate_request", "node_key", "signed_by_node_key"])
def test_a_request_with_a_part_of_anothers_is_refused(site, tmp_path, field):
    other = json.loads(write_request(tmp_path / "south", "south").read_bytes())
    mine = json.loads((site / "request.json").read_bytes())
    (site / "request.json").write_text(json.dumps(mine | {field: other[field]}))
    with pytest.raises(FedloomError, match="was changed on its way, or its sender does not have the keys"):
        read_request(site / "request.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"site": "a", "certificate_request": "x", "node_key": ""}'])
def test_what_is_no_request_is_refused(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(FedloomError, match="is not a site's request"):
        read_request(tmp_path / "r.json")


def test_a_missing_request_is_named(tmp_path):
    with pytest.raises(FedloomError, match="cannot be read"):
        read_request(tmp_path / "none.json")


def test_a_request_that_is_killed_leaves_nothing_or_everything(tmp_path):
    folder, seen = tmp_path / "north", set()
    for _ in kills(lambda: write_request(folder, "north"), lambda: shutil.rmtree(folder, ignore_errors=True)):
        finish_change(folder)
        is_whole = (folder / "request.json").exists()
        assert {path.exists() for path in (folder / "client.key", folder / "node.key")} == {is_whole}
        seen.add(is_whole)
        if not is_whole:
            write_request(folder, "north")
        assert read_request(folder / "request.json").site == "north"
    assert seen == {False, True}
