"""``signature.json``: the authority's signature of a participant's folder.

It lists the SHA-256 of every file that the participant gets and does not edit: the run, the form of its data, the
initial model, user files, certificates. A site checks it whenever it starts, so a folder that was changed on its way is
found. What a participant edits (``site.toml``, ``deploy.toml``, its data) and its private keys are not covered. The
authority's own key is that of ``ca.crt`` in the same folder: compare its fingerprint with the operator's, by telephone
for instance.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedloom.core.errors import FedloomError
from fedloom.deploy.participant_folder import SIGNATURE_FILE
from fedloom.deploy.provision.authority import Authority
from fedloom.deploy.provision.certificates import AUTHORITY, SITE, public_key_of
from fedloom.files.atomic_write import write_atomic
from fedloom.files.formats import SIGNATURE as FORMAT
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, read_limited

SIGNATURE = SIGNATURE_FILE
COVERED = (
    "config.toml", "schema.json", "initial.safetensors", "communal.safetensors", "global.safetensors",
    "server.safetensors", "*.py", "start.sh", "ca.crt", "server.pem", "client.pem", "approver.pem",
    "keys/*.pub", "keys/*.pem",
)  # fmt: skip
"""Which files are covered, if they are there: what a participant gets and does not edit."""
RENEWED = "renewed"
"""The folder of renewed files for each site, in the server's folder: a running site gets them from there."""
RENEWED_FILES = (SITE, AUTHORITY, SIGNATURE)
"""The files of a site that a renewal changes; none is secret."""


def file_digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of the files of a folder that a signature covers, by name."""
    files = {path for pattern in COVERED for path in folder.glob(pattern)}
    return {path.relative_to(folder).as_posix(): _digest(path) for path in sorted(files)}


def signature_bytes(digests: Mapping[str, str], authority: Authority) -> bytes:
    """The content of ``signature.json`` for some digests."""
    signature = base64.b64encode(authority.sign_data(_text(digests))).decode()
    return json.dumps({"version": FORMAT.version, "files": dict(digests), "signature": signature}, indent=1).encode()


def sign_folder(folder: Path, authority: Authority) -> None:
    """Write ``signature.json`` for a folder as it is now."""
    write_atomic(folder / SIGNATURE, signature_bytes(file_digests(folder), authority))


def with_signature(folder: Path, files: Mapping[str, bytes], authority: Authority) -> dict[str, bytes]:
    """New files of a folder, and the ``signature.json`` of the folder with them.

    Args:
        files: The contents of files that will be new or changed, by name.
        authority: Signs the folder.
    """
    new = {name: hashlib.sha256(content).hexdigest() for name, content in files.items() if _is_covered(name)}
    digests = dict(sorted((file_digests(folder) | new).items()))
    return {**files, SIGNATURE: signature_bytes(digests, authority)}


def fits_signature(files: Mapping[str, bytes]) -> bool:
    """Whether a ``signature.json`` has the digests of the files beside it; its signature is not checked.

    Args:
        files: The contents of files by name, and that of the signature.
    """
    try:
        digests = parse_json(files[SIGNATURE])["files"]
        return all(digests[n] == hashlib.sha256(data).hexdigest() for n, data in files.items() if n != SIGNATURE)
    except (ValueError, KeyError, TypeError):
        return False


def signed_digests(path: Path) -> dict[str, str]:
    """The digests in a ``signature.json``; its signature is not checked."""
    try:
        written = parse_json(read_limited(path, SETTINGS))
        FORMAT.check(written["version"], path)
        files = written["files"]
        return {str(name): str(digest) for name, digest in files.items()}
    except OSError as error:
        raise FedloomError(f"{path} cannot be read ({error.strerror}): ask the operator for it.") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FedloomError(f"{path} is not a signature of the authority's: ask the operator for it again.") from None


def check_signature(folder: Path, draft: Path | None = None) -> None:
    """Raise an error if a folder is not the one that the authority signed.

    Args:
        draft: A folder of files that would take the places of those in the folder.
    """

    def place_of(name: str) -> Path:
        return draft / name if draft is not None and (draft / name).is_file() else folder / name

    path = place_of(SIGNATURE)
    if not path.is_file():
        raise FedloomError(
            f"{folder} has no {SIGNATURE}: ask the operator for it (fedloom deploy renew writes one for every folder)."
        )
    digests, key = signed_digests(path), public_key_of(place_of(AUTHORITY))
    try:
        signature = base64.b64decode(parse_json(read_limited(path, SETTINGS))["signature"], validate=True)
        key.verify(signature, _text(digests), ec.ECDSA(hashes.SHA384()))
    except (ValueError, KeyError, TypeError, InvalidSignature):
        raise FedloomError(
            f"{path} was not made by the authority of {AUTHORITY}: ask the operator for this folder again."
        ) from None
    for name, digest in digests.items():
        file = place_of(name)
        if not file.is_file():
            raise FedloomError(
                f"{file} is missing, and the authority signed it: ask the operator for this folder again."
            )
        if _digest(file) != digest:
            raise FedloomError(
                f"{file} is not the file that the authority signed: it was changed, or copied in part; ask the "
                "operator for this folder again."
            )


def fingerprint(folder: Path) -> str:
    """The fingerprint of a deployment's authority, by which people compare their folders; the same after a renewal."""
    key = public_key_of(folder / AUTHORITY).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    digits = hashlib.sha256(key).hexdigest()[:32]
    return " ".join(digits[place : place + 4] for place in range(0, len(digits), 4))


def _is_covered(name: str) -> bool:
    return any(fnmatchcase(name, one) and name.count("/") == one.count("/") for one in COVERED)


def _text(digests: Mapping[str, str]) -> bytes:
    return json.dumps(["fedloom folder", dict(digests)], sort_keys=True).encode()


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
