"""Warm start: the weights of a saved model or of another run as the initial model of a run (``start_from``)."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, read_limited
from fedloom.runs.folder.checkpoint import read_server_state
from fedloom.runs.folder.fingerprint import hash_tensor
from fedloom.runs.folder.manifest import read_checked
from fedloom.runs.folder.old_folders import read_run_values
from fedloom.runs.results.unadapted_row import unadapted_row

SAVED = "model.safetensors"
"""The weights in the folder of a saved model."""


def with_start(task: Task, path: str) -> Task:
    """The task with the weights at a path as its initial model.

    Args:
        path: A run's folder, a saved model's folder, or a .safetensors file with a module's state dict.
    """
    place = Path(path)
    if not place.exists():
        raise FedloomError(f"start_from={path} does not exist: give a run's folder, or a .safetensors file of weights.")
    model = copy.deepcopy(task.model)
    if (place / "config.toml").is_file() and not (place / SAVED).is_file():
        row = read_server_state(place).get("row")
        if row is None:
            raise FedloomError(f"start_from={path}: the run there has no shared model to start from.")
        row = unadapted_row(row, task, read_run_values(place)["method"])
        if len(row) != len(task.initial_row()):
            raise FedloomError(
                f"start_from={path}: the model there has {len(row):,} numbers, but the model of {task.name} has "
                f"{len(task.initial_row()):,}: start from a run with the same model."
            )
        task.layout.fill(model, row)
    else:
        _fill(model, _weights(place / SAVED if place.is_dir() else place, path), path)
    if not all(bool(tensor.isfinite().all()) for tensor in model.parameters()):
        raise FedloomError(f"start_from={path}: the model there has numbers that are not finite: it diverged.")
    return replace(task, model=model)


def model_digest(model: nn.Module) -> str:
    """A short hash of a model's tensors."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        hash_tensor(digest, tensor)
    return digest.hexdigest()


def _weights(file: Path, path: str) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    _check_digest(file)
    try:
        return dict(load_file(file))
    except (SafetensorError, OSError) as error:
        raise FedloomError(
            f"start_from={path} is not a run's folder and not a .safetensors file ({str(error).splitlines()[0][:80]}): "
            "save weights with safetensors.torch.save_file(model.state_dict(), path)."
        ) from None


def _check_digest(file: Path) -> None:
    """Refuse the weights of a saved model that are not those which its folder lists."""
    try:
        listed = parse_json(read_limited(file.parent / "model.json", SETTINGS))["files"][file.name]
    except (OSError, ValueError, KeyError, TypeError):
        return  # a file of weights alone, or a model of an earlier version
    if file.is_file():
        read_checked(file, listed)


def _fill(model: nn.Module, weights: Mapping[str, Tensor], path: str) -> None:
    """Copy tensors into a model, after a check of their names and shapes."""
    expected = model.state_dict()
    optional = {name for name, tensor in expected.items() if not tensor.is_floating_point()}  # counters of batches
    for name in sorted(expected.keys() ^ weights.keys()):
        if name not in optional:
            problem = "lacks" if name in expected else "has in addition"
            raise FedloomError(
                f"start_from={path} holds another model: it {problem} '{name[:60]}'; start from the same model."
            )
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            raise FedloomError(
                f"start_from={path} holds another model: its '{name}' has shape {tuple(tensor.shape)}, but here it has "
                f"{tuple(expected[name].shape)}."
            )
    model.load_state_dict({**expected, **weights})
