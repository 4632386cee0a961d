"""Warm start: the weights of a saved model or of another run as the initial model of a run (``start_from``)."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.model.frozen_parts import listed, match_names
from fedloom.core.model.low_rank_adapters import adapted_names, adapter_tensors, merge_adapters
from fedloom.core.task import Task
from fedloom.core.warn_once import warn_once
from fedloom.files.json_text import parse_json
from fedloom.files.limits import SETTINGS, read_limited
from fedloom.runs.folder.checkpoint import read_server_state
from fedloom.runs.folder.fingerprint import hash_tensor
from fedloom.runs.folder.manifest import read_checked
from fedloom.runs.folder.old_folders import read_run_values
from fedloom.runs.folder.plan_constants import plan_constants
from fedloom.runs.results.unadapted_row import unadapted_row
from fedloom.tasks.trained_parts import retrained

SAVED = "model.safetensors"
"""The weights in the folder of a saved model."""
PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")


def with_start(task: Task, path: str, without: Sequence[str] = ()) -> Task:
    """The task with the weights at a path as its initial model.

    Args:
        path: A run's folder, a saved model's folder, or a .safetensors file with a module's state dict.
        without: Patterns of tensors that keep the task's own initial weights (``start_without``), such as those of a
            head with another number of classes.
    """
    place = Path(path)
    if not place.exists():
        raise FedloomError(f"start_from={path} does not exist: give a run's folder, or a .safetensors file of weights.")
    model = copy.deepcopy(task.model)
    if (place / "config.toml").is_file() and not (place / SAVED).is_file():
        weights = _weights_of_run(place, path, task)
    else:
        kept = plan_constants(place) if place.is_dir() else {}
        weights = {**kept, **_weights(place / SAVED if place.is_dir() else place, path)}
    _fill(model, weights, path, without)
    if not all(bool(tensor.isfinite().all()) for tensor in model.parameters()):
        raise FedloomError(f"start_from={path}: the model there has numbers that are not finite: it diverged.")
    return replace(task, model=model)


def _weights_of_run(place: Path, path: str, task: Task) -> dict[str, Tensor]:
    """The tensors of a run's shared model, with what it did not train; adapters other than the task's are merged."""
    row = read_server_state(place).get("row")
    if row is None:
        raise FedloomError(f"start_from={path}: the run there has no shared model to start from.")
    values = read_run_values(place)
    section = values.get("task", {})
    seed = section.get("seed", values.get("seed", 0))
    before = retrained(task, section.get("frozen", ()), section.get("adapters"), seed)
    if (earlier := values.get("start_from")) and before.layout.constants(before.model):
        before = with_start(before, earlier, values.get("start_without", ()))
        if values.get("made_by", {}).get("start_from") not in (None, model_digest(before.model)):
            raise FedloomError(
                f"start_from={path}: the run there started from {earlier}, and the model there has changed: restore it."
            )
    before = _with_constants(before, plan_constants(place.parent))  # a deployment's run: they are in its plan
    row = unadapted_row(row, before, values["method"])
    if len(row) != before.layout.width:
        raise FedloomError(
            f"start_from={path}: the model there has {len(row):,} numbers, but the model of {task.name} has "
            f"{before.layout.width:,}: start from a run with the same model."
        )
    model = copy.deepcopy(before.model)
    before.layout.fill(model, row)
    if adapter_tensors(model) != adapter_tensors(task.model):
        model = merge_adapters(model)
    return dict(model.state_dict())


def _with_constants(task: Task, constants: Mapping[str, Tensor]) -> Task:
    """The task with other values of what its model does not train, as far as its model has it."""
    own = task.model.state_dict()
    fitting = {name: t for name, t in constants.items() if name in own and own[name].shape == t.shape}
    model = copy.deepcopy(task.model)
    model.load_state_dict({**own, **fitting})
    return replace(task, model=model) if fitting else task


def model_digest(model: nn.Module) -> str:
    """A short hash of a model's tensors."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        hash_tensor(digest, tensor)
    return digest.hexdigest()


def _weights(file: Path, path: str) -> dict[str, Tensor]:
    """The tensors of a file by name."""
    if file.suffix in PICKLES:
        raise FedloomError(
            f"start_from={path} is a PyTorch file, and reading one can run code that is inside: convert it where you "
            "trust it, with safetensors.torch.save_file(torch.load(path, weights_only=True), 'weights.safetensors')."
        )
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


def _fill(model: nn.Module, weights: Mapping[str, Tensor], path: str, without: Sequence[str]) -> None:
    """Copy tensors into a model, after a check of their names and shapes."""
    expected = model.state_dict()
    if not adapter_tensors(model) & weights.keys():  # of a model without adapters, whose layers have other names
        names = adapted_names(model)
        weights = {names.get(name, name): tensor for name, tensor in weights.items()}
        expected = {name: tensor for name, tensor in expected.items() if name not in adapter_tensors(model)}
    everything = sorted({*expected, *weights})
    initial = set(match_names(everything, without, "start_without", "tensor"))
    if initial:
        warn_once(f"start_without: {listed(sorted(initial))} keep their initial weights")
    weights = {name: tensor for name, tensor in weights.items() if name not in initial}
    expected = {name: tensor for name, tensor in expected.items() if name not in initial}
    counters = {name for name, tensor in expected.items() if not tensor.is_floating_point()}  # of batches
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    problems = {
        "lacks": [name for name in expected if name not in weights and name not in counters],
        "has in addition": sorted(weights.keys() - expected.keys()),
        "has in another shape": [
            f"{name} {tuple(shapes[name])} instead of {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in shapes and shapes[name] != tensor.shape
        ],
    }
    said = [f"it {problem} {listed([name[:80] for name in names])}" for problem, names in problems.items() if names]
    if said:
        raise FedloomError(
            f"start_from={path} holds another model: {'; '.join(said)}: start from the same model, or name what is to "
            'keep its own initial weights, for instance start_without = ["head.*"].'
        )
    model.load_state_dict({**model.state_dict(), **weights})
