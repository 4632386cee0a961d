"""Certificates: a chain that other programs accept, secrets that only their owner reads, and sentences about faults."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedloom.core.errors import FedloomError

x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed: no certificates are made")

from cryptography.hazmat.primitives import hashes  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key  # noqa: E402

from fedloom.deploy.provision import certificates  # noqa: E402
from fedloom.deploy.provision.authority import Authority, _builder  # noqa: E402
from fedloom.deploy.provision.certificates import check_certificates  # noqa: E402
from fedloom.deploy.provision.private_keys import make_node_key  # noqa: E402
from fedloom.deploy.settings import ServerSettings, SiteSettings, to_toml  # noqa: E402
from fedloom.files.atomic_write import write_private  # noqa: E402


def server_folder(folder: Path, authority: Authority, host: str = "127.0.0.1") -> Path:
    folder.mkdir(parents=True)
    authority.publish(folder)
    authority.certify_server(folder, host)
    (folder / "deploy.toml").write_bytes(to_toml(ServerSettings(sites=["a"], host=host)))
    return folder


def site_folder(folder: Path, authority: Authority, name: str = "a") -> Path:
    folder.mkdir(parents=True)
    authority.publish(folder)
    authority.certify_site(folder, name)
    make_node_key(folder / "node.key", folder.parent / f"{name}.pub")
    (folder / "site.toml").write_bytes(to_toml(SiteSettings(name=name, client=0)))
    return folder


@pytest.fixture(scope="module")
def authority_folder(tmp_path_factory):
    """A server and a site of one authority; tests that spoil something copy it."""
    out = tmp_path_factory.mktemp("made")
    authority = Authority.new(30)
    (out / "authority").mkdir()
    authority.save(out / "authority")
    server_folder(out / "server", authority, "hub.example.org")
    site_folder(out / "a", authority)
    return out


@pytest.fixture
def copy(authority_folder, tmp_path):
    return Path(shutil.copytree(authority_folder, tmp_path / "copy"))


def is_valid(authority_folder: Path, path: Path, purpose: str) -> bool:
    words = [
        "openssl",
        "verify",
        "-x509_strict",
        "-purpose",
        purpose,
        "-CAfile",
        authority_folder / "server/ca.crt",
        path,
    ]
    return subprocess.run(words, capture_output=True).returncode == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_accepts_each_certificate_for_its_own_purpose_only(authority_folder):
    server, site = authority_folder / "server/server.pem", authority_folder / "a/client.pem"
    assert is_valid(authority_folder, server, "sslserver")
    assert is_valid(authority_folder, site, "sslclient")
    assert not is_valid(authority_folder, server, "sslclient")
    assert not is_valid(authority_folder, site, "sslserver")  # a site cannot pass for the server


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> ssl.SSLObject:
    """The two ends of a TLS connection in one thread; returns the server's end, once the client has proved itself."""
    ends = [
        (server, ssl.MemoryBIO(), ssl.MemoryBIO(), {"server_side": True}),
        (client, ssl.MemoryBIO(), ssl.MemoryBIO(), {"server_hostname": name}),
    ]
    (served, called) = (context.wrap_bio(into, out, **how) for context, into, out, how in ends)
    for _ in range(4):
        for end, (_, _, out, _), (_, into, _, _) in ((called, ends[1], ends[0]), (served, ends[0], ends[1])):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
            into.write(out.read())
    return served


@pytest.mark.parametrize("name", ["hub.example.org", "localhost", "127.0.0.1"])
def test_server_and_site_know_each_other_by_tls(authority_folder, name):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority_folder / "server/server.pem", authority_folder / "server/server.key")
    server.load_verify_locations(authority_folder / "server/ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(authority_folder / "a/ca.crt"))
    client.load_cert_chain(authority_folder / "a/client.pem", authority_folder / "a/client.key")
    served = shake_hands(server, client, name)
    assert served.getpeercert()["subject"] == ((("commonName", "a"),),)


def test_the_server_has_no_other_name(authority_folder):
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority_folder / "server/server.pem", authority_folder / "server/server.key")
    client = ssl.create_default_context(cafile=str(authority_folder / "a/ca.crt"))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'other.example.org'"):
        shake_hands(server, client, "other.example.org")


def test_an_address_is_named_as_an_address(tmp_path):
    folder = server_folder(tmp_path / "server", Authority.new(1), "::1")
    certificate = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["::1", "127.0.0.1"]
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    check_certificates(folder)


def test_private_keys_are_their_owners_only(authority_folder):
    secrets = list(authority_folder.rglob("*.key"))
    assert {path.name for path in secrets} == {"ca.key", "server.key", "client.key", "node.key"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    assert len({path.read_bytes() for path in secrets}) == len(secrets)


def test_a_node_key_is_what_flower_reads(authority_folder):
    private = load_ssh_private_key((authority_folder / "a/node.key").read_bytes(), None)
    public = load_ssh_public_key((authority_folder / "a.pub").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert isinstance(private.curve, ec.SECP384R1)
    assert private.public_key() == public


def test_what_was_made_passes_the_check_and_ends_when_it_should(authority_folder):
    check_certificates(authority_folder / "server")
    check_certificates(authority_folder / "a")
    ends = {
        x509.load_pem_x509_certificate((authority_folder / path).read_bytes()).not_valid_after_utc
        for path in (f"server/{certificates.SERVER}", f"a/{certificates.SITE}", f"a/{certificates.AUTHORITY}")
    }
    assert len(ends) == 1
    assert timedelta(days=29) < ends.pop() - datetime.now(UTC) <= timedelta(days=30)


def at(monkeypatch, moved: timedelta) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + moved

    monkeypatch.setattr(certificates, "datetime", Clock)


def test_an_expired_certificate_is_named(authority_folder, monkeypatch):
    at(monkeypatch, timedelta(days=31))
    with pytest.raises(FedloomError, match=r"server/ca.crt expired on 20.*fedloom deploy renew"):
        check_certificates(authority_folder / "server")


def test_a_certificate_that_ends_before_its_authority_is_named(tmp_path):
    authority = Authority.new(30)
    old, until = authority.certificate, datetime.now(UTC) - timedelta(hours=1)
    ended = _builder(old.subject, old.subject, authority.key.public_key(), old.not_valid_before_utc, until)
    folder = site_folder(tmp_path / "a", Authority(authority.key, ended.sign(authority.key, hashes.SHA384())))
    authority.publish(folder)
    with pytest.raises(FedloomError, match=r"a/client.pem expired on"):
        check_certificates(folder)


def test_a_clock_that_is_behind_is_told_apart(authority_folder, monkeypatch):
    at(monkeypatch, timedelta(days=-3))
    with pytest.raises(FedloomError, match=r"a/ca.crt is not valid before 20.*clock"):
        check_certificates(authority_folder / "a")


def test_a_certificate_of_another_authority_is_refused(copy):
    Authority.new(30).publish(copy / "a")
    with pytest.raises(FedloomError, match=r"a/client.pem was not signed by the authority of .*a/ca.crt"):
        check_certificates(copy / "a")


def test_a_key_of_another_certificate_is_refused(copy):
    shutil.copy(copy / "a/client.key", copy / "server/server.key")
    with pytest.raises(FedloomError, match=r"server/server.key does not belong to .*server/server.pem"):
        check_certificates(copy / "server")


@pytest.mark.parametrize("name", ["ca.crt", "client.pem", "client.key", "node.key"])
@pytest.mark.parametrize("unreadable", [None, b"", b"-----BEGIN NOTHING-----\n", b"\xff\x00"])
def test_a_file_that_is_missing_or_unreadable_is_named(copy, name, unreadable):
    (copy / "a" / name).unlink()
    if unreadable is not None:
        write_private(copy / "a" / name, unreadable)
    with pytest.raises(FedloomError, match=f"a/{name} (cannot be read|is no)"):
        check_certificates(copy / "a")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
@pytest.mark.parametrize("name", ["server/server.key", "a/client.key", "a/node.key"])
def test_a_key_that_other_users_can_read_is_refused(copy, name, mode):
    (copy / name).chmod(mode)
    with pytest.raises(FedloomError) as why:
        check_certificates((copy / name).parent)
    assert str(why.value) == (
        f"{copy / name} is open to other users of this machine (mode {mode:o}): chmod 600 {copy / name}"
    )


def test_a_host_that_the_certificate_does_not_name_is_refused(copy):
    settings = ServerSettings(sites=["a"], host="moved.example.org")
    (copy / "server/deploy.toml").write_bytes(to_toml(settings))
    with pytest.raises(FedloomError, match=r"not for host 'moved.example.org' but for hub.example.org, localhost"):
        check_certificates(copy / "server")
