"""Folders are signed by the authority: what was changed on its way is found at the site's start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.signature import SIGNATURE, check_signature, file_digests, fingerprint, sign_folder


def fill(folder: Path, authority: Authority) -> Path:
    folder.mkdir()
    for name in ("config.toml", "schema.json", "initial.safetensors", "my_method.py", "site.toml", "README.md"):
        (folder / name).write_text(f"the {name}")
    authority.publish(folder)
    authority.certify_site(folder, "north")
    sign_folder(folder, authority)
    return folder


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path / "north", Authority.new(10))


def test_a_folder_as_it_was_signed_is_accepted_and_may_lie_anywhere(folder, tmp_path):
    check_signature(folder)
    check_signature(Path(shutil.copytree(folder, tmp_path / "elsewhere")))


@pytest.mark.parametrize(
    "name", ["config.toml", "schema.json", "initial.safetensors", "my_method.py", "ca.crt", "client.pem"]
)
def test_a_file_that_was_changed_or_removed_is_named(folder, name):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole + b"\n")
    with pytest.raises(FedloomError, match=f"{name} is not the file that the authority signed"):
        check_signature(folder)
    if name != "ca.crt":
        (folder / name).unlink()
        with pytest.raises(FedloomError, match=f"{name} is missing, and the authority signed it"):
            check_signature(folder)


def test_what_a_site_edits_and_its_private_keys_are_not_covered(folder):
    assert not {"site.toml", "README.md", "client.key", SIGNATURE} & file_digests(folder).keys()
    (folder / "site.toml").write_text("mine")
    (folder / "data.csv").write_text("mine")
    check_signature(folder)


def test_digests_that_were_written_by_another_are_refused(folder, tmp_path):
    signed = json.loads((folder / SIGNATURE).read_bytes())
    (folder / "config.toml").write_text("another run")
    (folder / SIGNATURE).write_text(json.dumps(signed | {"files": file_digests(folder)}))
    with pytest.raises(FedloomError, match="was not made by the authority"):
        check_signature(folder)
    stranger = fill(tmp_path / "stranger", Authority.new(10))
    shutil.copyfile(stranger / SIGNATURE, folder / SIGNATURE)
    with pytest.raises(FedloomError, match="was not made by the authority"):
        check_signature(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3}', '{"files": {}, "signature": "!"}', '{"files": {}}'])
def test_a_signature_that_is_none_is_refused(folder, text):
    (folder / SIGNATURE).write_text(text)
    with pytest.raises(FedloomError, match=f"{SIGNATURE} (is not a signature|was not made by)"):
        check_signature(folder)


def test_a_folder_without_a_signature_says_which_step_is_needed(folder):
    (folder / SIGNATURE).unlink()
    with pytest.raises(FedloomError, match="fedloom deploy renew writes one"):
        check_signature(folder)


def test_the_fingerprint_is_the_authoritys_and_outlives_a_renewal(folder, tmp_path):
    authority = Authority.new(10)
    one, two = tmp_path / "one", tmp_path / "two"
    for place, signer in ((one, authority), (two, authority.renew(20))):
        place.mkdir()
        signer.publish(place)
    assert fingerprint(one) == fingerprint(two) != fingerprint(folder)
    assert [len(part) for part in fingerprint(one).split(" ")] == [4] * 8
