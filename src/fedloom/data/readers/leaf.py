"""LEAF's JSON files: data that are already divided among clients.

The reader returns inputs, labels, the client of each sample and, where there are ``train`` and ``test`` folders,
whether each sample is for testing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.files.json_text import parse_json
from fedloom.files.limits import most_json, read_limited

ClientArrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


def read_leaf(path: Path) -> ClientArrays:
    """LEAF's ``users``, ``user_data`` files: one file, a folder of files, or folders ``train`` and ``test``."""
    parts = []
    for part, files in list_parts(path, "*.json"):
        for file in files:
            try:
                users: dict[str, Any] = parse_json(read_limited(file, most_json()))["user_data"]
                pairs = [(str(user), data["x"], data["y"]) for user, data in users.items()]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise FedloomError(
                    f"{file} is not a LEAF file: it needs user_data with x and y for each user."
                ) from error
            parts += [(user, _inputs(x, user, file), _labels(y, user, file), part) for user, x, y in pairs if len(x)]
    return combine_clients(path, parts)


def list_parts(path: Path, pattern: str) -> list[tuple[str, list[Path]]]:
    """The files of each part: those of the folders ``train`` and ``test``, or all of the folder as the part ""."""
    if path.is_file():
        return [("", [path])]
    if (path / "train").is_dir():
        found = [(part, sorted((path / part).glob(pattern))) for part in ("train", "test")]
    else:
        found = [("", sorted(path.glob(pattern)))]
    if not found[0][1]:
        raise FedloomError(f"{path / found[0][0]} has no {pattern} file: put the clients' files there.")
    return found


def _inputs(x: Any, user: str, file: Path) -> np.ndarray:
    if isinstance(x[0], str):
        raise FedloomError(
            f"{file}: the inputs of user {user} are text: for LEAF's Shakespeare use "
            "`fedloom data get shakespeare --from FILE`; turn other text into numbers first."
        )
    try:
        inputs = np.asarray(x)
    except ValueError:
        raise FedloomError(f"{file}: the inputs of user {user} differ in length: give one shape for all.") from None
    if inputs.dtype.kind not in "fiub":
        raise FedloomError(f"{file}: the inputs of user {user} are not all numbers.")
    return inputs.astype(np.float32) if inputs.dtype.kind == "f" else inputs


def _labels(y: Any, user: str, file: Path) -> np.ndarray:
    try:
        return np.asarray(y)
    except ValueError:
        raise FedloomError(f"{file}: the labels of user {user} differ in shape: give one label per sample.") from None


def combine_clients(path: Path, parts: list[tuple[str, np.ndarray, np.ndarray, str]]) -> ClientArrays:
    """One array of inputs and one of labels from many clients' (client, inputs, labels, part)."""
    if not parts:
        raise FedloomError(f"{path} has no samples: give at least one client with samples.")
    shape = parts[0][1].shape[1:]
    for user, x, y, _ in parts:
        if x.shape[1:] != shape:
            raise FedloomError(f"{path}: inputs of client {user} have shape {x.shape[1:]}, others {shape}: use one.")
        if y.shape != x.shape[:1]:
            raise FedloomError(f"{path}: client {user} has {len(x)} inputs and labels of shape {y.shape}.")
    if any(part for *_, part in parts):
        trains = {user for user, *_, part in parts if part == "train"}
        test_only = [user for user, *_, part in parts if user not in trains]
        if test_only:
            raise FedloomError(
                f"{path}: client {test_only[0]} is in test but not in train: split each client's samples "
                "(LEAF: -t sample), or leave it out."
            )
    holder = np.repeat([user for user, *_ in parts], [len(x) for _, x, _, _ in parts])
    test = np.repeat([part == "test" for *_, part in parts], [len(x) for _, x, _, _ in parts])
    x = np.concatenate([x for _, x, _, _ in parts])
    y = np.concatenate([y for _, _, y, _ in parts])
    return x, y, holder, test if test.any() else None
