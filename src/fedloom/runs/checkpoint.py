"""Checkpoints: the whole state of a run on disk. A run can stop at any time and continue to the same bytes.

``round-000012.safetensors`` holds the server's state and the server optimiser's; ``kept-000012.safetensors`` holds the
clients' kept rows that changed since the checkpoint before. A file is written under another
name, synced and renamed, so it is complete or absent. No pickle is involved.
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
    tensors = {"round": torch.tensor(state.round)}
    tensors |= {f"server/{name}": tensor for name, tensor in state.server.items()}
    tensors |= {f"optimizer/{name}": tensor for name, tensor in state.optimizer.items()}
    tensors |= {f"selection/{name}": tensor for name, tensor in state.selection.items()}
    write_atomic(checkpoints / f"round-{number}.safetensors", _safetensors(tensors))
    _drop_superseded(checkpoints)


def load_checkpoint(folder: Path, clients: int) -> RunState | None:
    """The state of the newest checkpoint in a run's folder, or None if there is no checkpoint."""
    checkpoints = folder / "checkpoints"
    found = sorted(checkpoints.glob("round-*.safetensors"))
    if not found:
        return None
    tensors = load_tensors(found[-1])
    server, optimizer, selection = (
        select_prefix(tensors, prefix) for prefix in ("server/", "optimizer/", "selection/")
    )
    state = RunState(int(tensors["round"]), server, optimizer, ClientStates(clients), selection)
    for path in sorted(checkpoints.glob("kept-*.safetensors")):
        if path.stem.removeprefix("kept-").removesuffix("-all") > found[-1].stem.removeprefix("round-"):
            path.unlink()  # written by a round that never finished
        else:
            state.client_states.restore(load_tensors(path))
    _drop_superseded(checkpoints)  # in case the run stopped right after writing the checkpoint
    return state


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
