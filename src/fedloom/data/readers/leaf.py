"""Data that other frameworks have already divided: LEAF's JSON, and folders with one NPZ per client.

Both answer with inputs, labels, a client per sample and, where there are ``train`` and ``test`` folders, a mark on the
samples for testing. PFLlib's own NPZ files hold a pickled dictionary and are refused with the line that re-saves them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.folder import read_arrays

Divided = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]


def read_leaf(path: Path) -> Divided:
    """LEAF's ``users``, ``user_data`` files: one file, a folder of files, or folders ``train`` and ``test``."""
    parts = []
    for part, files in _parts(path, "*.json"):
        for file in files:
            try:
                users: dict[str, Any] = json.loads(file.read_bytes())["user_data"]
                pairs = [(str(user), data["x"], data["y"]) for user, data in users.items()]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise FedloomError(
                    f"{file} is not a LEAF file: it needs user_data with x and y for each user."
                ) from error
            parts += [(user, _inputs(x, user, file), _labels(y, user, file), part) for user, x, y in pairs if len(x)]
    return _together(path, parts)


def read_client_files(path: Path) -> Divided:
    """One NPZ with plain arrays x and y per client, in the folder or in its ``train`` and ``test`` folders."""
    parts = []
    for part, files in _parts(path, "*.npz"):
        for file in sorted(files, key=lambda f: (not f.stem.isdigit(), f.stem.zfill(12))):
            try:
                arrays = read_arrays(file)
            except FedloomError as error:
                if "pickled" not in str(error):
                    raise
                raise FedloomError(
                    f"{file} holds a pickled object, which Fedloom never loads: where you trust it, open it with numpy "
                    "(its 'data' is a dictionary) and re-save the arrays, numpy.savez(file, x=data['x'], y=data['y'])."
                ) from None
            if not {"x", "y"} <= set(arrays):
                raise FedloomError(f"{file} has the arrays {', '.join(arrays) or 'none'}: it needs x and y.")
            parts.append((file.stem, arrays["x"], arrays["y"], part))
    return _together(path, parts)


def _parts(path: Path, pattern: str) -> list[tuple[str, list[Path]]]:
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


def _together(path: Path, parts: list[tuple[str, np.ndarray, np.ndarray, str]]) -> Divided:
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
        strangers = [user for user, *_, part in parts if user not in trains]
        if strangers:
            raise FedloomError(
                f"{path}: client {strangers[0]} is in test and not in train: split each client's samples "
                "(LEAF: -t sample), or leave it out."
            )
    holder = np.repeat([user for user, *_ in parts], [len(x) for _, x, _, _ in parts])
    test = np.repeat([part == "test" for *_, part in parts], [len(x) for _, x, _, _ in parts])
    x = np.concatenate([x for _, x, _, _ in parts])
    y = np.concatenate([y for _, _, y, _ in parts])
    return x, y, holder, test if test.any() else None
