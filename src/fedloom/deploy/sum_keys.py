"""The keys of a sum over sites: a site signs with the key of its certificate, and knows the others by theirs.

``introductions.py`` says why a server cannot invent a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedloom.core.errors import FedloomError
from fedloom.deploy.introductions import identifier, introduce
from fedloom.deploy.provision.private_keys import read_private
from fedloom.files.atomic_write import write_private
from fedloom.secure.primitives import signing_public
from fedloom.secure.sum_step import ServerKeys, SumKeys, SumStep

SITES_SECRET, SERVERS_PART = "sum.key", "sum.pub"
"""The secret that only sites share, and what the server needs to add without it."""
_PURPOSE = b"fedloom key for sums"


def write_shared_secret(step: SumStep, sites: Sequence[Path], server: Path) -> None:
    """Write what sites share among themselves, and the server's part of it; most sums need nothing of this kind.

    Args:
        step: How sums are hidden.
        sites: The folders of the training sites.
        server: The server's folder.
    """
    made = step.make_shared_secret()
    if made is not None:
        secret, public = made
        for folder in sites:
            write_private(folder / SITES_SECRET, secret)
        (server / SERVERS_PART).write_bytes(public)


def site_keys(folder: Path, sites: Sequence[str]) -> SumKeys:
    """The keys of a site: its key for sums comes from that of its certificate, which vouches for it.

    Args:
        folder: The site's folder.
        sites: The names of the training sites, by client number.
    """
    private, introduction = introduce(folder, _PURPOSE, signing_public)
    secret = folder / SITES_SECRET
    shared = read_private(secret) if secret.exists() else b""
    return SumKeys(private, introduction, identifier(folder, sites, _PURPOSE), shared)


def server_keys(folder: Path, sites: Sequence[str]) -> ServerKeys:
    """What the server has: the authority's certificate, and its part of what sites share.

    Args:
        folder: The server's folder.
        sites: The names of the training sites, by client number.
    """
    if (folder / SITES_SECRET).exists():
        raise FedloomError(
            f"{folder / SITES_SECRET} is the secret of the sites, with which the server could read every update: "
            "remove it, and make the deployment again if others have seen it."
        )
    public = folder / SERVERS_PART
    return ServerKeys(identifier(folder, sites, _PURPOSE), public.read_bytes() if public.exists() else b"")
