"""Keys that are made at a site: ``fedloom deploy request`` writes them and a request for a certificate.

``request.json`` goes to the operator, who signs it with ``deploy init --request`` or ``deploy add --request``. The
private keys never leave the site. The request is signed with both keys, so nobody can request a certificate for the
keys of another.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import NameOID

from fedloom.core.errors import FedloomError
from fedloom.deploy.provision.change_files import change_files, finish_change
from fedloom.deploy.provision.private_keys import NODE_KEY, SITE_KEY, make_node_key, make_private_key
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, read_limited

REQUEST = "request.json"
_HASH = hashes.SHA384()


@dataclass(frozen=True)
class KeyRequest:
    """A site's request: its name, the public key for its certificate, and its node's public key in OpenSSH format."""

    site: str
    key: ec.EllipticCurvePublicKey
    node_key: bytes


def write_request(folder: Path, site: str) -> Path:
    """Write a site's private keys and ``request.json`` into a folder, new or without keys; the request's path."""
    finish_change(folder)
    for name in (SITE_KEY, NODE_KEY):
        if (folder / name).exists():
            raise FedloomError(
                f"{folder / name} exists already: a request needs a folder without keys; remove the keys if nobody "
                "uses them, or choose another folder."
            )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".request.", dir=folder) as draft:
            change_files(folder, _request_files(Path(draft), site))
    except OSError as error:
        raise FedloomError(f"{folder} cannot be written ({error.strerror}): choose another folder.") from None
    return folder / REQUEST


def _request_files(draft: Path, site: str) -> dict[str, bytes]:
    """New keys, made in a folder, and the request for their certificate."""
    make_private_key(draft / SITE_KEY)
    make_node_key(draft / NODE_KEY, public := draft / f"{NODE_KEY}.pub")
    keys = {name: (draft / name).read_bytes() for name in (SITE_KEY, NODE_KEY)}
    key, node = load_pem_private_key(keys[SITE_KEY], None), load_ssh_private_key(keys[NODE_KEY], None)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(node, ec.EllipticCurvePrivateKey):
        raise FedloomError("the keys that were made are not EC keys.")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, _HASH).public_bytes(Encoding.PEM)
    values = {
        "site": site,
        "certificate_request": request.decode(),
        "node_key": public.read_text().strip(),
        "signed_by_node_key": node.sign(request, ec.ECDSA(_HASH)).hex(),
    }
    return {**keys, REQUEST: json.dumps(values, indent=1).encode()}


def read_request(path: Path) -> KeyRequest:
    """Read a site's request and check that its sender has the private keys."""
    try:
        values = parse_json(read_limited(path, SETTINGS))
        request = x509.load_pem_x509_csr(values["certificate_request"].encode())
        node_key = values["node_key"].encode()
        node, signature, site = (
            load_ssh_public_key(node_key),
            bytes.fromhex(values["signed_by_node_key"]),
            values["site"],
        )
        key, named = request.public_key(), request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(node, ec.EllipticCurvePublicKey):
            raise FedloomError(f"{path}: its keys are not EC keys; make the request with fedloom deploy request.")
        node.verify(signature, values["certificate_request"].encode(), ec.ECDSA(_HASH))
        if not request.is_signature_valid or [one.value for one in named] != [site]:
            raise InvalidSignature
    except OSError as error:
        raise FedloomError(f"{path} cannot be read ({error.strerror}): give the request.json of a site.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FedloomError(f"{path} is not a site's request: give the {REQUEST} of fedloom deploy request.") from None
    except InvalidSignature:
        raise FedloomError(
            f"{path} was changed on its way, or its sender does not have the keys: ask for it again."
        ) from None
    return KeyRequest(site, key, node_key + b"\n")
