"""Who may take part, as a run that is at work sees it: keys are read again when the server's folder changes."""

from __future__ import annotations

import itertools
import shutil
from datetime import datetime, timedelta

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")
pytest.importorskip("flwr", reason="Flower is not installed: keys are not read")

from fedloom.deploy import members
from fedloom.deploy.flower.control import public_key
from fedloom.deploy.members import MemberKeys, Revocation, member_keys, save_revocations, site_serial, stamp
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.private_keys import make_node_key
from fedloom.deploy.settings import ServerSettings, to_toml

SETTINGS = ServerSettings(sites=["north", "south"])


@pytest.fixture
def server(tmp_path):
    folder, authority = tmp_path / "server", Authority.new(10)
    (folder / "keys").mkdir(parents=True)
    authority.publish(folder)
    authority.certify_server(folder, "127.0.0.1")
    for name in SETTINGS.sites:
        (tmp_path / name).mkdir()
        authority.certify_site(tmp_path / name, name)
        shutil.copyfile(tmp_path / name / "client.pem", folder / "keys" / f"{name}.pem")
        make_node_key(tmp_path / name / "node.key", folder / "keys" / f"{name}.pub")
    (folder / "deploy.toml").write_bytes(to_toml(SETTINGS))
    return folder


def test_a_run_that_is_at_work_sees_a_revocation_and_a_new_key(server, tmp_path):
    keys = MemberKeys(server, SETTINGS)
    north, south = (public_key(server / f"keys/{name}.pub") for name in SETTINGS.sites)
    assert dict(keys) == {north: 0, south: 1}
    assert keys.reason(0) == ""
    save_revocations(server, [Revocation("north", site_serial(server, "north"), "2026-11-17T08:00:00Z")])
    assert dict(keys) == {south: 1}
    assert keys.reason(0) == "revoked by the operator at 2026-11-17T08:00:00Z"
    assert keys.reason(1) == ""
    Authority.new(5).certify_site(tmp_path, "north")  # whoever signed it: another serial number
    shutil.copyfile(tmp_path / "client.pem", server / "keys/north.pem")
    make_node_key(tmp_path / "new.key", server / "keys/north.pub")
    assert dict(keys) == {public_key(server / "keys/north.pub"): 0, south: 1}
    assert north not in keys
    assert keys.reason(0) == ""


def test_a_site_whose_certificate_has_expired_is_told_from_one_that_is_away(server, monkeypatch, tmp_path):
    short = Authority.new(3)
    short.certify_site(tmp_path, "north")
    shutil.copyfile(tmp_path / "client.pem", server / "keys/north.pem")
    keys = MemberKeys(server, SETTINGS)

    class Later(datetime):
        passed = timedelta(days=5)

        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + cls.passed

    monkeypatch.setattr(members, "datetime", Later)
    assert keys.reason(0).startswith("its certificate expired on 20")
    assert keys.reason(1) == ""
    Later.passed = timedelta(days=11)
    assert keys.reason(1).startswith("the server's certificate expired on 20")


def test_the_stamp_changes_with_every_file_that_counts(server):
    seen = [stamp(server)]
    for name in ("deploy.toml", "ca.crt", "server.pem", "keys/north.pub", "keys/north.pem"):
        (server / name).write_bytes((server / name).read_bytes() + b"\n")
        seen.append(stamp(server))
    save_revocations(server, [])
    seen.append(stamp(server))
    assert all(one != other for one, other in itertools.pairwise(seen))
    assert stamp(server) == seen[-1]


def test_serial_numbers_are_written_as_nginx_does(server):
    serial = site_serial(server, "north")
    assert len(serial) % 2 == 0
    assert serial == serial.upper()
    assert site_serial(server, "nobody") == ""
    assert len(member_keys(server, SETTINGS)) == 2


def test_a_site_that_is_added_during_a_run_does_not_disturb_it(server, tmp_path):
    shutil.copyfile(server / "keys/north.pem", server / "keys/east.pem")
    (server / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=[*SETTINGS.sites, "east"])))
    make_node_key(tmp_path / "east.key", server / "keys/east.pub")
    keys = MemberKeys(server, SETTINGS)
    assert sorted(keys.values()) == [0, 1]
    assert [keys.reason(client) for client in (0, 1)] == ["", ""]
