"""Checkpoints: the whole state of a run on disk. A run can stop at any time and continue to the same bytes.

``round-000012.safetensors`` holds the server's state and the server optimiser's; ``kept-000012.safetensors`` holds the
clients' kept rows that changed since the checkpoint before. With early stopping, ``best-000009.safetensors`` holds the
whole state of the best round so far. A file is written under another name, synced and renamed, so it is complete or
absent. No pickle is involved.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.nested_keys import select_prefix
from fedloom.rounds.client_states import ClientStates
from fedloom.rounds.run_state import RunState
from fedloom.runs.atomic_write import write_atomic

COMPACT = 4
"""When the changes on disk are this many times the size of the kept rows, write all rows and remove old files."""


def save_checkpoint(folder: Path, state: RunState) -> None:
    """Write the state after a round, then remove the previous checkpoint."""
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    number = f"{state.round:06d}"
    _save_kept(checkpoints, number, state.client_states)
    write_atomic(checkpoints / f"round-{number}.safetensors", _safetensors(_server_tensors(state)))
    _drop_superseded(checkpoints)


def load_checkpoint(folder: Path, clients: int) -> RunState | None:
    """The state of the newest checkpoint in a run's folder, or None if there is no checkpoint."""
    checkpoints = folder / "checkpoints"
    found = sorted(checkpoints.glob("round-*.safetensors"))
    if not found:
        return None
    state = _state(load_tensors(found[-1]), clients)
    for path in sorted(checkpoints.glob("kept-*.safetensors")):
        if path.stem.removeprefix("kept-").removesuffix("-all") > found[-1].stem.removeprefix("round-"):
            path.unlink()  # written by a round that never finished
        else:
            state.client_states.restore(load_tensors(path))
    _drop_superseded(checkpoints)  # in case the run stopped right after writing the checkpoint
    return state


def read_server_state(folder: Path) -> dict[str, Tensor]:
    """The server's part of a run's newest checkpoint; empty if there is no checkpoint."""
    newest = sorted((folder / "checkpoints").glob("round-*.safetensors"))
    if not newest:
        return {}
    return select_prefix(load_tensors(newest[-1]), "server/")


def save_best(folder: Path, state: RunState) -> None:
    """Write a copy of the state of a run's best round so far; the best one before stays until the next checkpoint."""
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    kept = {f"kept/{name}": tensor for name, tensor in state.client_states.everything().items()}
    content = _safetensors(_server_tensors(state) | kept)
    write_atomic(checkpoints / f"best-{state.round:06d}.safetensors", content)


def load_best(folder: Path, number: int, clients: int) -> RunState:
    """The state of a run's best round."""
    tensors = load_tensors(folder / "checkpoints" / f"best-{number:06d}.safetensors")
    state = _state(tensors, clients)
    state.client_states.restore(select_prefix(tensors, "kept/"))
    return state


def drop_other_bests(folder: Path, number: int) -> None:
    """Remove the states of rounds that are no longer the best."""
    for path in (folder / "checkpoints").glob("best-*.safetensors"):
        if path.stem != f"best-{number:06d}":
            path.unlink()


def go_back(folder: Path, state: RunState) -> None:
    """Make a copy of an earlier state the run's checkpoint. A process that is killed meanwhile leaves a whole one."""
    checkpoints, number = folder / "checkpoints", f"{state.round:06d}"
    kept = state.client_states.everything()
    if kept:
        write_atomic(checkpoints / f"kept-{number}-all.safetensors", _safetensors(kept))
    write_atomic(checkpoints / f"round-{number}.safetensors", _safetensors(_server_tensors(state)))
    mine = (f"round-{number}", f"kept-{number}-all")
    for kind in ("round", "kept", "best"):  # with the newer round's file goes its state, so it is the first
        for path in checkpoints.glob(f"{kind}-*.safetensors"):
            if path.stem not in mine:
                path.unlink()


def _server_tensors(state: RunState) -> dict[str, Tensor]:
    tensors = {"round": torch.tensor(state.round)}
    tensors |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    tensors |= {f"optimizer/{name}": tensor for name, tensor in state.optimizer.items()}
    return tensors | {f"selection/{name}": tensor for name, tensor in state.selection.items()}


def _state(tensors: Mapping[str, Tensor], clients: int) -> RunState:
    """The state that ``_server_tensors`` described, without what clients kept."""
    server, optimizer, selection = (
        select_prefix(tensors, prefix) for prefix in ("server/", "optimizer/", "selection/")
    )
    return RunState(int(tensors["round"]), server, optimizer, ClientStates(clients), selection)


def _save_kept(checkpoints: Path, number: str, keep: ClientStates) -> None:
    if not keep.dirty:
        return
    whole = sum(rows.nbytes for rows in keep.rows.values())
    on_disk = sum(path.stat().st_size for path in checkpoints.glob("kept-*.safetensors"))
    if on_disk > COMPACT * whole:
        write_atomic(checkpoints / f"kept-{number}-all.safetensors", _safetensors(keep.everything()))
    else:
        write_atomic(checkpoints / f"kept-{number}.safetensors", _safetensors(keep.changes()))


def _drop_superseded(checkpoints: Path) -> None:
    for old in sorted(checkpoints.glob("round-*.safetensors"))[:-1]:
        old.unlink()
    wholes = sorted(checkpoints.glob("kept-*-all.safetensors"))
    if wholes:
        for old in checkpoints.glob("kept-*.safetensors"):
            if old.name < wholes[-1].name and old != wholes[-1]:
                old.unlink()


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
