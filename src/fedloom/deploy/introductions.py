"""Introductions: keys of a site that the key of its certificate vouches for, each for one purpose.

The authority's signature of a certificate binds a key to the name of a site, and the plan of the run binds that name to
a client number. So a server that carries introductions cannot invent a client, and needs no list of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fedloom.deploy.provision.certificates import AUTHORITY, SITE, load_certificate
from fedloom.deploy.provision.private_keys import SITE_KEY, load_private_key
from fedloom.secure.sum_step import Identify

_LENGTH = struct.Struct("<H")
_HASH = ec.ECDSA(hashes.SHA384())


def introduce(folder: Path, purpose: bytes, public_half: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
    """A private key of a site for one purpose, and the introduction by which others know its public half.

    The key comes from that of the site's certificate, so it is the same after a restart.

    Args:
        folder: The site's folder.
        public_half: Makes the public half of a private key.
    """
    certificate = load_certificate(folder / SITE).public_bytes(Encoding.DER)
    key = load_private_key(folder / SITE_KEY)
    number = key.private_numbers().private_value.to_bytes(48, "big")
    private = HKDF(hashes.SHA256(), 32, None, purpose).derive(number)
    public = public_half(private)
    return private, public + _LENGTH.pack(len(certificate)) + certificate + key.sign(purpose + public, _HASH)


def identifier(folder: Path, sites: Sequence[str], purpose: bytes) -> Identify:
    """Finds the public keys of sites by introductions that the authority of a folder stands behind.

    Args:
        folder: The folder of a site or of the server.
        sites: The names of the training sites, by client number.
    """
    authority = load_certificate(folder / AUTHORITY)

    def identify(client: int, introduction: bytes) -> bytes | None:
        return _public_key(introduction, sites[client], authority, purpose) if client < len(sites) else None

    return identify


def _public_key(introduction: bytes, name: str, authority: x509.Certificate, purpose: bytes) -> bytes | None:
    """The public key in an introduction, if the site of a name has signed it for a purpose."""
    public, rest = introduction[:32], introduction[32:]
    try:
        (length,) = _LENGTH.unpack_from(rest)
        certificate = x509.load_der_x509_certificate(rest[_LENGTH.size :][:length])
        certificate.verify_directly_issued_by(authority)
        (common,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = certificate.public_key()
        if common.value != name or not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        key.verify(rest[_LENGTH.size + length :], purpose + public, _HASH)
    except (InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion, ValueError, TypeError, struct.error):
        return None
    return public
