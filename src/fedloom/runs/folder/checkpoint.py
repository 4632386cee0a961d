"""Checkpoints: the whole state of a run on disk. A run can stop at any time and continue to the same bytes.

``round-000012.safetensors`` holds the server's state and the server optimiser's; ``kept-000012.safetensors`` holds the
clients' kept rows that changed since the checkpoint before. With early stopping, ``best-000009.safetensors`` holds the
whole state of the best round so far. A file is written under another name, synced and renamed, so it is complete or
absent; a checkpoint counts once its manifest is written, which has the digests of its files. No pickle is involved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.files.atomic_write import write_atomic
from fedloom.files.resume_command import resume_command
from fedloom.registry.nested_keys import select_prefix
from fedloom.rounds.client_states import ClientStates
from fedloom.rounds.run_state import PARTS, RunState
from fedloom.runs.folder.manifest import (
    CHECKPOINTS,
    Damaged,
    Manifest,
    check_settings,
    digest_of,
    find_file,
    manifest_paths,
    newest_manifest,
    read_checked,
    settings_of,
    tidy,
    write_manifest,
)
from fedloom.runs.folder.metrics_file import FINISHED, compact_json, count_records

COMPACT = 4
"""When the changes on disk are this many times the size of the kept rows, write all rows and remove old files."""
LOOKS = 5
"""How often a checkpoint is looked for again while a running process replaces it."""


def save_start(folder: Path) -> None:
    """Write the manifest of a run that has played no round, with the digests of its settings."""
    write_manifest(folder, Manifest(0, settings=settings_of(folder)))


def save_checkpoint(folder: Path, state: RunState, best: RunState | None = None) -> None:
    """Write the state after a round; of earlier checkpoints only the last ones stay.

    Args:
        folder: The run's folder.
        state: The state after the round.
        best: The state of the best round so far, with early stopping.
    """
    (folder / CHECKPOINTS).mkdir(exist_ok=True)
    before = newest_manifest(folder) or Manifest(0, settings=settings_of(folder))
    files = _write_server(folder, state)
    files |= _save_kept(folder, f"{state.round:06d}", state.client_states, before)
    if best is not None:
        files |= _save_best(folder, best, before)
    write_manifest(folder, _manifest(folder, state.round, files, before))
    tidy(folder)


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Write what a run has at its end, as JSON; empty results but the first are left out.

    Their digests are written before them, so that a run that is killed in between computes them again.

    Args:
        folder: The run's folder.
        results: The values by the names of their files.
    """
    contents = {name: compact_json(value) for name, value in results.items() if value or name == FINISHED[0]}
    before = newest_manifest(folder) or Manifest(0, settings=settings_of(folder))
    manifest = _manifest(folder, before.round, before.files, before)
    write_manifest(folder, replace(manifest, results={name: digest_of(text) for name, text in contents.items()}))
    for name, content in reversed(contents.items()):  # with the first one, the run counts as finished
        write_atomic(folder / name, content)


def load_checkpoint(folder: Path, clients: int) -> RunState | None:
    """The state of the newest checkpoint in a run's folder, or None if there is no checkpoint."""
    files = _newest_files(folder)
    server = [tensors for name, tensors in files.items() if name.startswith("round-")]
    if not server:
        return None
    state = _state(server[0], clients)
    for name, tensors in files.items():
        if name.startswith("kept-"):
            state.client_states.restore(tensors)
    return state


def last_saved_round(folder: Path) -> int | None:
    """The round of a run's newest checkpoint, whose files are not read; None if there is no checkpoint."""
    manifest = newest_manifest(folder)
    return None if manifest is None or not manifest.files else manifest.round


def read_server_state(folder: Path) -> dict[str, Tensor]:
    """The server's part of a run's newest checkpoint; empty if there is no checkpoint."""
    return next((select_prefix(file, "server/") for file in _newest_files(folder, "round-").values()), {})


def load_best(folder: Path, number: int, clients: int) -> RunState:
    """The state of a run's best round."""
    tensors = _newest_files(folder, "best-")[_best_name(number)]
    state = _state(tensors, clients)
    state.client_states.restore(select_prefix(tensors, "kept/"))
    return state


def go_back(folder: Path, state: RunState) -> None:
    """Make a copy of an earlier state the run's checkpoint. A process that is killed meanwhile leaves a whole one."""
    before = newest_manifest(folder) or Manifest(0, settings=settings_of(folder))
    files, kept = _write_server(folder, state), state.client_states.everything()
    if kept:
        files |= _write(folder, f"kept-{state.round:06d}-all.safetensors", kept)
    write_manifest(folder, _manifest(folder, state.round, files, before))
    for path in manifest_paths(folder)[::-1]:  # the newest first: then the one before it is whole
        if path.stem != f"manifest-{state.round:06d}":
            path.unlink()
    tidy(folder)


def _manifest(folder: Path, number: int, files: Mapping[str, str], before: Manifest) -> Manifest:
    """The manifest of a checkpoint that follows the one of ``before``."""
    records, length, chain = count_records(folder, (before.records, before.length, before.chain))
    return Manifest(number, dict(files), before.settings, records, length, chain)


def _newest_files(folder: Path, kind: str = "") -> dict[str, dict[str, Tensor]]:
    """The tensors of the newest checkpoint's files of a kind, checked; a run may replace the checkpoint meanwhile."""
    for _ in range(LOOKS):
        manifest = newest_manifest(folder)
        if manifest is None:
            paths = _paths_without_manifest(folder)
            return {path.name: load_tensors(path) for path in paths if path.name.startswith(kind)}
        try:
            check_settings(folder, manifest)
            names = [name for name in manifest.files if name.startswith(kind)]
            return {name: _tensors(find_file(folder, name), manifest.files[name]) for name in names}
        except Damaged as damage:
            if manifest == newest_manifest(folder):
                raise Damaged(f"{damage}: {_remedy(folder)}.") from None
    raise FedloomError(f"{folder} changes too fast to be read: try again when its run has stopped.")


def _remedy(folder: Path) -> str:
    return f"{resume_command(folder)} continues from the last whole checkpoint"


def _paths_without_manifest(folder: Path) -> list[Path]:
    """The files of the newest checkpoint of a folder of format 1, which has no digests; the server's state first."""
    checkpoints = folder / CHECKPOINTS
    found = sorted(checkpoints.glob("round-*.safetensors"))
    if not found:
        return []
    number = found[-1].stem.removeprefix("round-")
    kept = sorted(checkpoints.glob("kept-*.safetensors"))
    kept = [path for path in kept if path.stem.removeprefix("kept-").removesuffix("-all") <= number]
    return [found[-1], *kept, *sorted(checkpoints.glob("best-*.safetensors"))]


def _tensors(path: Path, digest: str) -> dict[str, Tensor]:
    return dict(load(read_checked(path, digest)))


def _write_server(folder: Path, state: RunState) -> dict[str, str]:
    return _write(folder, f"round-{state.round:06d}.safetensors", _server_tensors(state))


def _write(folder: Path, name: str, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Write a file of a checkpoint, and return its name and digest."""
    content = _safetensors(tensors)
    write_atomic(folder / CHECKPOINTS / name, content)
    return {name: digest_of(content)}


def _best_name(number: int) -> str:
    return f"best-{number:06d}.safetensors"


def _save_best(folder: Path, state: RunState, before: Manifest) -> dict[str, str]:
    """Write a copy of the state of a run's best round, unless an earlier checkpoint has it."""
    name = _best_name(state.round)
    if name in before.files:
        return {name: before.files[name]}
    kept = {f"kept/{name}": tensor for name, tensor in state.client_states.everything().items()}
    return _write(folder, name, _server_tensors(state) | kept)


def _server_tensors(state: RunState) -> dict[str, Tensor]:
    tensors = {"round": torch.tensor(state.round)}
    return tensors | {f"{part}/{name}": tensor for part in PARTS for name, tensor in getattr(state, part).items()}


def _state(tensors: Mapping[str, Tensor], clients: int) -> RunState:
    """The state that ``_server_tensors`` described, without what clients kept."""
    parts = {part: select_prefix(tensors, f"{part}/") for part in PARTS}
    return RunState(int(tensors["round"]), client_states=ClientStates(clients), **parts)


def _save_kept(folder: Path, number: str, keep: ClientStates, before: Manifest) -> dict[str, str]:
    """Write the kept rows that changed, and return the files that hold all of them, in order, with their digests."""
    files = {name: digest for name, digest in before.files.items() if name.startswith("kept-")}
    if not keep.dirty:
        return files
    whole = sum(rows.nbytes for rows in keep.rows.values())
    on_disk = sum(find_file(folder, name).stat().st_size for name in files)
    if on_disk > COMPACT * whole:
        return _write(folder, f"kept-{number}-all.safetensors", keep.everything())
    return files | _write(folder, f"kept-{number}.safetensors", keep.changes())


def _safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    return bytes(save({name: tensor.contiguous().clone() for name, tensor in tensors.items()}))


def load_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one checkpoint file."""
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise FedloomError(
            f"{path} is not a readable checkpoint ({error}): restore it or start the run again."
        ) from None
