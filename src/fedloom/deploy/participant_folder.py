"""The files of a participant's folder, and whether the folder is the server's or a site's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from fedloom.core.errors import FedloomError
from fedloom.files.json_text import parse_json
from fedloom.files.regular_file import read_regular
from fedloom.files.resume_command import SERVER_SETTINGS

SERVER_FILE, SITE_FILE, SIGNATURE_FILE = SERVER_SETTINGS, "site.toml", "signature.json"
APPROVER_FILE = "approver.pem"
"""The public key of the deployment's approver, in every participant's folder, if it has one."""
KEYS = "keys"
"""The folder of the sites' public keys and certificates, in the server's folder."""
RUN = "run"
"""The folder of the deployed run, in the server's folder."""
FLOWER = "flower"
"""The folder of Flower's files, the sockets of the participant's programs, and its process number."""
SERVING, OUTCOME, STATUS, CROSS_SITE = "serving.json", "outcome.json", "status.json", "cross_site.json"
"""Files in the run's folder: the server half's process, how it ended, what it waits for, and cross-site scores."""
REFUSED = "refused.json"
"""In the run's folder: the sites that may not take part in it, with the reasons."""
TICKETS = "tickets.json"
"""In the run's folder: the tickets of the clients' states."""
NUMBER = "number.json"
"""In the run's folder: the number that tells the run from others of the same plan."""
SITES = "sites.json"
"""In the run's folder: the names of its training sites."""
CLAIM = "claim"
"""What a record's remark is about that says how many of a site's samples count."""

Role = Literal["server", "site"]


def role_of(folder: Path) -> Role:
    """Whether a folder is the server's or a site's."""
    if (folder / SERVER_FILE).is_file():
        return "server"
    if (folder / SITE_FILE).is_file():
        return "site"
    raise FedloomError(
        f"{folder} is not a participant's folder: it has neither {SERVER_FILE} nor {SITE_FILE}; give deploy/server or "
        "a site's folder, as fedloom deploy init made them."
    )


def make_private(path: Path) -> Path:
    """Make a folder, if there is none, that only its owner can enter; the folder."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)
    return path


def read_json(path: Path) -> dict[str, Any]:
    """The content of a small JSON file; empty if it is missing, not complete, not a regular file, or no object."""
    try:
        found = parse_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
