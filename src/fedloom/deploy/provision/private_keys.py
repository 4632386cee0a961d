"""The private keys of a deployment's participants: EC P-384, each in one participant's folder only, with mode 600."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_private

AUTHORITY_KEY, SERVER_KEY, SITE_KEY, NODE_KEY = "ca.key", "server.key", "client.key", "node.key"


def make_private_key(path: Path) -> ec.EllipticCurvePublicKey:
    """Write a new private key, in PEM, and return its public half."""
    key = new_key()
    write_private(path, pem_bytes(key))
    return key.public_key()


def make_node_key(private: Path, public: Path) -> None:
    """Write a site's node key, with which the SuperNode signs, and its public half, which the SuperLink registers."""
    key = new_key()
    write_private(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")


def load_private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in a file."""
    try:
        key = load_pem_private_key(read_private(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise FedloomError(f"{path} is not a private key in PEM format: copy it again.") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise FedloomError(f"{path} is not an EC key: take the one of this deployment.")
    return key


def check_node_key(path: Path) -> None:
    """Raise an error if a site's node key is missing or damaged."""
    try:
        load_ssh_private_key(read_private(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise FedloomError(f"{path} is not a private key in OpenSSH's format: copy it again.") from None


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new key, on no disk yet."""
    return ec.generate_private_key(ec.SECP384R1())


def pem_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key in PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_private(path: Path) -> bytes:
    """The content of a file with a secret; refused if others than its owner can read it."""
    data = read_bytes(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise FedloomError(
            f"{path} is open to other users of this machine (mode {mode:o}): chmod 600 {shlex.quote(str(path))}"
        )
    return data


def read_bytes(path: Path) -> bytes:
    """The content of a participant's file."""
    if path.exists() and not path.is_file():
        raise FedloomError(f"{path} cannot be read (it is not a file): copy the whole folder, as its owner.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise FedloomError(f"{path} cannot be read ({error.strerror}): copy the whole folder, as its owner.") from None
