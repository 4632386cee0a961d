"""Keys of sums over sites: the authority vouches for a site's key, and the server never has the sites' secret."""

from __future__ import annotations

import pytest

from fedloom.core.errors import FedloomError
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.sum_keys import server_keys, site_keys, write_shared_secret
from support.plain_sums import PlainSum

NAMES = ["north", "south"]


@pytest.fixture
def folders(tmp_path):
    authority = Authority.new(1)
    for name in (*NAMES, "server"):
        (tmp_path / name).mkdir()
        authority.publish(tmp_path / name)
        if name != "server":
            authority.certify_site(tmp_path / name, name)
    return tmp_path


def test_sites_and_server_know_a_site_by_its_certificate(folders):
    north, south = (site_keys(folders / name, NAMES) for name in NAMES)
    key = south.identify(0, north.introduction)
    assert key == server_keys(folders / "server", NAMES).identify(0, north.introduction)
    assert key is not None
    assert north.private != south.private
    assert site_keys(folders / "north", NAMES).private == north.private  # the same after a restart


def test_nobody_else_is_believed(folders, tmp_path_factory):
    north = site_keys(folders / "north", NAMES)
    server = server_keys(folders / "server", NAMES)
    assert server.identify(1, north.introduction) is None  # another number
    assert server.identify(7, north.introduction) is None  # nobody
    for place in (0, 40, len(north.introduction) - 1):  # the key, the certificate, the signature
        changed = bytearray(north.introduction)
        changed[place] ^= 1
        assert server.identify(0, bytes(changed)) is None
    for text in (b"", b"x" * 20, north.introduction[:33]):
        assert server.identify(0, text) is None
    other = tmp_path_factory.mktemp("other")  # the same name, another authority
    stranger = Authority.new(1)
    stranger.publish(other)
    stranger.certify_site(other, "north")
    assert server.identify(0, site_keys(other, NAMES).introduction) is None


class Sharing(PlainSum):
    def make_shared_secret(self):
        return b"secret", b"public"


def test_the_secret_is_with_the_sites_and_the_server_has_its_part(folders):
    write_shared_secret(Sharing(), [folders / name for name in NAMES], folders / "server")
    assert [site_keys(folders / name, NAMES).secret for name in NAMES] == [b"secret"] * 2
    assert server_keys(folders / "server", NAMES).public == b"public"
    assert (folders / "north" / "sum.key").stat().st_mode & 0o077 == 0


def test_a_server_that_has_the_secret_of_the_sites_does_not_start(folders):
    (folders / "server" / "sum.key").write_bytes(b"secret")
    with pytest.raises(FedloomError, match="the server could read every update"):
        server_keys(folders / "server", NAMES)
