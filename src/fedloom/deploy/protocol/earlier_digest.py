"""The digest that fedloom 0.5 had of a deployed run: a run that it started goes on only with the same blueprint."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from fedloom.deploy.protocol.blueprint import COMMUNAL, CONFIG, INITIAL, NOT_SHARED, SCHEMA
from fedloom.registry.validation import read_toml
from fedloom.runs.fingerprint import hash_tensor
from fedloom.runs.folder.checkpoint import load_tensors


def earlier_digest(folder: Path) -> str:
    """The digest of the run in a server's folder, from the files as 0.5 wrote them.

    Args:
        folder: The server's folder.
    """
    plain = read_toml(folder / CONFIG)
    shared = {key: value for key, value in plain.items() if key not in NOT_SHARED}
    shared["task"] = {key: value for key, value in plain["task"].items() if key != "path"}
    text = json.dumps([shared, json.loads((folder / SCHEMA).read_bytes())], sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    hash_tensor(digest, load_tensors(folder / INITIAL)["row"])
    communal = load_tensors(folder / COMMUNAL) if (folder / COMMUNAL).is_file() else {}
    for _, column in sorted(communal.items()):
        hash_tensor(digest, column)
    return digest.hexdigest()
