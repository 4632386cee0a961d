"""The keys of a sum over sites: a site signs with the key of its certificate, and knows the others by theirs.

The authority's signature of a certificate binds a key to the name of a site, and the plan of the run binds that name to
a client number. So a server cannot invent a client, and needs no list of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fedloom.core.errors import FedloomError
from fedloom.deploy.provision.certificates import AUTHORITY, SITE, load_certificate
from fedloom.deploy.provision.private_keys import SITE_KEY, load_private_key, read_private
from fedloom.files.atomic_write import write_private
from fedloom.secure.sum_step import Identify, ServerKeys, SumKeys, SumStep

SITES_SECRET, SERVERS_PART = "sum.key", "sum.pub"
"""The secret that only sites share, and what the server needs to add without it."""
_LENGTH = struct.Struct("<H")
_PURPOSE = b"fedloom key for sums"
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
    """The keys of a site: its key for sums comes from that of its certificate, which vouches for it.

    Args:
        folder: The site's folder.
        sites: The names of the training sites, by client number.
    """
    certificate = load_certificate(folder / SITE).public_bytes(Encoding.DER)
    key, secret = load_private_key(folder / SITE_KEY), folder / SITES_SECRET
    number = key.private_numbers().private_value.to_bytes(48, "big")
    private = HKDF(hashes.SHA256(), 32, None, _PURPOSE).derive(number)
    public = Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    introduction = public + _LENGTH.pack(len(certificate)) + certificate + key.sign(_PURPOSE + public, _HASH)
    return SumKeys(private, introduction, _identifier(folder, sites), read_private(secret) if secret.exists() else b"")


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
    return ServerKeys(_identifier(folder, sites), public.read_bytes() if public.exists() else b"")


def _identifier(folder: Path, sites: Sequence[str]) -> Identify:
    """Finds the keys of sites by introductions that the authority of a folder stands behind."""
    authority = load_certificate(folder / AUTHORITY)

    def identify(client: int, introduction: bytes) -> bytes | None:
        return _public_key(introduction, sites[client], authority) if client < len(sites) else None

    return identify


def _public_key(introduction: bytes, name: str, authority: x509.Certificate) -> bytes | None:
    """The public key in an introduction, if the site of a name has signed it."""
    public, rest = introduction[:32], introduction[32:]
    try:
        (length,) = _LENGTH.unpack_from(rest)
        certificate = x509.load_der_x509_certificate(rest[_LENGTH.size :][:length])
        certificate.verify_directly_issued_by(authority)
        (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = certificate.public_key()
        if common.value != name or not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        key.verify(rest[_LENGTH.size + length :], _PURPOSE + public, _HASH)
    except (InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion, ValueError, TypeError, struct.error):
        return None
    return public
