"""Certificates that will expire are said weeks before, while a participant runs, and once per day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError

pytest.importorskip("cryptography", reason="cryptography is not installed: no certificates are made")

from fedloom.deploy.operate import expiry_watch
from fedloom.deploy.operate.expiry_watch import ExpiryWatch
from fedloom.deploy.provision import certificates
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.private_keys import make_node_key
from fedloom.deploy.settings import ServerSettings, SiteSettings, to_toml


@pytest.fixture
def site(tmp_path) -> Path:
    authority = Authority.new(40)
    authority.publish(tmp_path)
    authority.certify_site(tmp_path, "north")
    make_node_key(tmp_path / "node.key", tmp_path / "north.pub")
    (tmp_path / "site.toml").write_bytes(to_toml(SiteSettings(name="north", client=0)))
    return tmp_path


@pytest.fixture
def clock(monkeypatch):
    """Days that have passed; every call of ``check`` looks."""
    passed = [0.0]

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz or UTC) + timedelta(days=passed[0])

    monkeypatch.setattr(certificates, "datetime", Later)
    monkeypatch.setattr(expiry_watch, "EVERY", 0.0)
    return passed


def test_a_site_is_warned_from_thirty_days_before_once_per_day_and_ends_with_the_reason(site, clock):
    said: list[str] = []
    watch = ExpiryWatch(site, said.append)
    clock[0] = 9.9
    watch.check()
    assert said == []
    clock[0] = 10.1
    watch.check()
    watch.check()
    assert len(said) == 1
    assert said[0].startswith("The certificate of north expires on 20")
    assert said[0].endswith("in 29 days: ask the operator for a renewed one (fedloom deploy renew).")
    clock[0] = 11.1
    watch.check()
    assert len(said) == 2
    clock[0] = 41
    with pytest.raises(FedloomError, match=r"expired on 20.*ask the operator for a renewed one"):
        watch.check()


def test_a_server_is_warned_of_all_and_goes_on(tmp_path, clock):
    authority = Authority.new(40)
    authority.publish(tmp_path)
    authority.certify_server(tmp_path, "127.0.0.1")
    (tmp_path / "keys").mkdir()
    authority.certify_site(tmp_path / "keys", "north")
    (tmp_path / "keys/client.pem").rename(tmp_path / "keys/north.pem")
    (tmp_path / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["north"])))
    said: list[str] = []
    watch = ExpiryWatch(tmp_path, said.append)
    clock[0] = 39.5
    watch.check()
    assert [line.split(" expires")[0] for line in said] == ["The certificate of server", "The certificate of north"]
    assert all(line.endswith("in 0 days: renew it with fedloom deploy renew.") for line in said)
    clock[0] = 41
    watch.check()
    assert "The certificate of server expired on 20" in said[2]


def test_a_certificate_that_is_just_being_copied_does_not_end_the_server(tmp_path, clock):
    authority = Authority.new(40)
    authority.publish(tmp_path)
    authority.certify_server(tmp_path, "127.0.0.1")
    (tmp_path / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["north"])))
    (tmp_path / "keys").mkdir()
    said: list[str] = []
    watch = ExpiryWatch(tmp_path, said.append)
    (tmp_path / "keys" / "north.pem").write_text("-----BEGIN CERT")
    clock[0] = 20.0
    watch.check()
    (tmp_path / "keys" / "north.pem").unlink()
    watch.check()
    assert len(said) >= 1
