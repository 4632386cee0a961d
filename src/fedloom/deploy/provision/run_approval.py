"""The approval of a new run, where a deployment has an approver: two people begin a run, and not the operator alone.

``fedloom deploy init --approver`` makes a key for the approver, whose public half is in every participant's folder and
covered by the authority's signature. A run that is to begin writes ``approval.request.json`` into the server's: the
plan, the sites, the settings and the number that the run will have. The approver signs that file (``fedloom deploy
approve``), and the run begins only with a signature of exactly this. A number is used once, so an approval is good for
one run.

It is checked by the operator's command, by the server half, and by every site on its own (``site/approvals.py``): an
operator who changes the program on the server begins no run alone. Who else takes part, and the server's settings, a
site cannot see.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from fedloom.core.errors import FedloomError
from fedloom.deploy.audit_log import file_digest, user_name
from fedloom.deploy.participant_folder import APPROVER_FILE, NUMBER, RUN, SERVER_FILE, SIGNATURE_FILE, read_json
from fedloom.deploy.protocol.blueprint import Blueprint
from fedloom.deploy.protocol.printable import printable_line
from fedloom.deploy.provision.private_keys import load_private_key, make_private_key, read_bytes
from fedloom.deploy.provision.signature import signed_digests
from fedloom.deploy.settings import load_server
from fedloom.files.atomic_write import write_atomic

APPROVER_KEY, APPROVER = "approver.key", APPROVER_FILE
"""The approver's private key, in a folder of its own, and its public half, in those of server and sites."""
REQUEST, APPROVAL = "approval.request.json", "approval.json"
"""In the server's folder: what is to be approved, and the approval; the latter also in the run's folder."""
_HASH = ec.ECDSA(hashes.SHA384())
_README = """\
# The approver's folder

`approver.key` approves new runs of this deployment. Keep it with a person who is not the operator, and not on the
server's machine. When the operator sends you `approval.request.json`:

    fedloom deploy approve approval.request.json              shows what would be run
    fedloom deploy approve approval.request.json --key .      signs it: send the operator approval.json

An approval is for one run of that plan, with those sites and settings. Continuing a run that stopped needs none.
"""


def make_approver(folder: Path) -> bytes:
    """Write the approver's private key and a README into a folder; the public half of the key, in PEM."""
    key = make_private_key(folder / APPROVER_KEY)
    (folder / "README.md").write_text(_README)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def has_approver(folder: Path) -> bool:
    """Whether a new run of a server's or a site's folder needs an approval: the authority signed an approver's key."""
    signature = folder / SIGNATURE_FILE
    return signature.is_file() and APPROVER in signed_digests(signature)


def approver_file(folder: Path) -> dict[str, bytes]:
    """The approver's public key of a server's folder, by its file's name, for another folder; empty without one."""
    return {APPROVER: _public_key(folder)} if has_approver(folder) else {}


def approved_number(folder: Path) -> str:
    """The number of the approved run that is to begin; empty if the deployment has no approver.

    Raises:
        FedloomError: There is no approval, or it is of another plan, other settings, or a run that has begun.
    """
    if not has_approver(folder):
        return ""
    wanted, approval = _plan(folder), read_json(folder / APPROVAL)
    if not approval:
        path = _request(folder, wanted)
        raise FedloomError(
            f"a new run of this deployment needs the approver: have {path} signed (fedloom deploy approve), put "
            f"{APPROVAL} into {folder}, and repeat this command."
        )
    asked = approval.get("request")
    if not isinstance(asked, dict) or not is_signed(folder, approval):
        raise FedloomError(
            f"{folder / APPROVAL} is not signed by the approver of this deployment: remove it, and ask for another."
        )
    if {name: asked.get(name) for name in wanted} != wanted:
        changed = next(name for name in wanted if asked.get(name) != wanted[name])
        what = {"sites": "its sites have", "settings": f"{SERVER_FILE} has"}.get(changed, "its plan has")
        path = _request(folder, wanted)
        raise FedloomError(
            f"the approver approved another run ({what} changed since): remove {folder / APPROVAL}, and "
            f"have {path} signed."
        )
    number = str(asked.get("number", ""))
    if number in _used(folder):
        path = _request(folder, wanted)
        raise FedloomError(
            f"the run that was approved has begun already, and an approval is for one run: remove {folder / APPROVAL}, "
            f"and have {path} signed."
        )
    return number


def is_signed(folder: Path, approval: Mapping[str, Any]) -> bool:
    """Whether the approver of a deployment signed an approval.

    Args:
        folder: The server's folder or a site's: the authority signed the approver's public key in it.
        approval: The content of ``approval.json``, from anywhere.
    """
    public = _public_key(folder)
    said = {name: approval.get(name) for name in ("request", "by", "at")}
    try:
        key = load_pem_public_key(public)
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return False
        key.verify(base64.b64decode(str(approval.get("signature", "")), validate=True), _text(said), _HASH)
    except (ValueError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def request_lines(path: Path) -> list[str]:
    """What a request asks the approver for, in lines for people."""
    asked = _read_request(path)
    lines = [
        f"A new run of {asked['label']}, {asked['rounds']} rounds, with {', '.join(map(str, asked['sites']))}",
        f"  plan {asked['plan']}, settings {asked['settings']}, number {asked['number']}",
        f"  asked by {asked['who']} at {asked['time']}",
    ]
    return [printable_line(line, 1000) for line in lines]


def approve(path: Path, folder: Path) -> Path:
    """Sign a request with the approver's key; the approval, beside the request.

    Args:
        path: The request.
        folder: The approver's folder.
    """
    asked, key = _read_request(path), load_private_key(folder / APPROVER_KEY)
    said = {"request": asked, "by": user_name(), "at": _now()}
    signature = base64.b64encode(key.sign(_text(said), _HASH)).decode()
    approval = path.with_name(APPROVAL)
    write_atomic(approval, json.dumps({**said, "signature": signature}, indent=1).encode())
    return approval


def _plan(folder: Path) -> dict[str, Any]:
    """What an approval is of: the plan, its sites and the server's settings, as they are now."""
    blueprint, settings = Blueprint.load(folder), load_server(folder)
    return {
        "plan": blueprint.plan_digest,
        "label": blueprint.label,
        "rounds": blueprint.config.rounds,
        "sites": list(settings.sites),
        "settings": file_digest(folder / SERVER_FILE),
    }


def _request(folder: Path, wanted: dict[str, Any]) -> Path:
    """Write a request, or leave the one that is there if it asks for the same and was not used."""
    path = folder / REQUEST
    there = read_json(path)
    is_open = there.get("number") not in {None, *_used(folder)}
    if not is_open or {name: there.get(name) for name in wanted} != wanted:
        values = {**wanted, "number": secrets.token_hex(8), "who": user_name(), "time": _now()}
        write_atomic(path, json.dumps(values, indent=1).encode())
    return path


def _read_request(path: Path) -> dict[str, Any]:
    asked = read_json(path)
    names = ("plan", "label", "rounds", "sites", "settings", "number", "who", "time")
    if any(name not in asked for name in names) or not isinstance(asked["sites"], list):
        raise FedloomError(f"{path} is not a request for a run: give the {REQUEST} of the server's folder.")
    return {name: asked[name] for name in names}


def _used(folder: Path) -> set[str]:
    """The numbers of runs that have begun."""
    runs = [path for path in folder.glob(f"{RUN}*") if (path / "config.toml").exists()]
    return {str(read_json(path / NUMBER).get("number", "")) for path in runs}


def _public_key(folder: Path) -> bytes:
    public = read_bytes(folder / APPROVER)
    if hashlib.sha256(public).hexdigest() != signed_digests(folder / SIGNATURE_FILE)[APPROVER]:
        raise FedloomError(f"{folder / APPROVER} is not the file that the authority signed: restore it.")
    return public


def _text(said: dict[str, Any]) -> bytes:
    return json.dumps(["fedloom run", said], sort_keys=True).encode()


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
