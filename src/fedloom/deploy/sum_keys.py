"""The keys of a sum over sites: a site signs with the key of its certificate, and knows the others by theirs.

The authority's signature of a certificate binds a key to the name of a site, and the plan of the run binds that name to
a client number. So a server cannot invent a client, and needs no list of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fedloom.core.errors import FedloomError
from fedloom.core.sum_step import SumKeys, SumStep
from fedloom.deploy.provision.certificates import AUTHORITY, SITE, load_certificate
from fedloom.deploy.provision.private_keys import SITE_KEY, load_private_key, read_private
from fedloom.runs.folder.atomic_write import write_private

SITES_SECRET, SERVERS_PART = "sum.key", "sum.pub"
"""The secret that only sites share, and what the server needs to add without it."""
_LENGTH = struct.Struct("<H")
_HASH = ec.ECDSA(hashes.SHA384())


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
    """The keys of a site.

    Args:
        folder: The site's folder.
        sites: The names of the training sites, by client number.
    """
    own = load_certificate(folder / SITE).public_bytes(Encoding.DER)
    key, authority = load_private_key(folder / SITE_KEY), load_certificate(folder / AUTHORITY)
    secret = folder / SITES_SECRET

    def sign(data: bytes) -> bytes:
        return _LENGTH.pack(len(own)) + own + key.sign(data, _HASH)

    def verify(client: int, data: bytes, signature: bytes) -> bool:
        return client < len(sites) and _has_signed(sites[client], authority, data, signature)

    return SumKeys(sign, verify, read_private(secret) if secret.exists() else b"")


def server_keys(folder: Path) -> bytes:
    """What the server needs to add: nothing for most sums.

    Args:
        folder: The server's folder.
    """
    if (folder / SITES_SECRET).exists():
        raise FedloomError(
            f"{folder / SITES_SECRET} is the secret of the sites, with which the server could read every update: "
            "remove it, and make the deployment again if others have seen it."
        )
    public = folder / SERVERS_PART
    return public.read_bytes() if public.exists() else b""


def _has_signed(name: str, authority: x509.Certificate, data: bytes, signature: bytes) -> bool:
    """Whether a signature comes from the site of a name, whose certificate is in it."""
    try:
        (length,) = _LENGTH.unpack_from(signature)
        certificate = x509.load_der_x509_certificate(signature[_LENGTH.size :][:length])
        certificate.verify_directly_issued_by(authority)
        (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = certificate.public_key()
        if common.value != name or not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        key.verify(signature[_LENGTH.size + length :], data, _HASH)
    except (InvalidSignature, ValueError, TypeError, struct.error):
        return False
    return True
