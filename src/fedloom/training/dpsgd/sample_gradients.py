"""The gradients of single samples, each clipped to a norm, and their sum, for many clients at once.

A chain of layers needs no gradient of a sample (``training/dpsgd/ghost_clipping.py``). For any other model
``torch.func.vmap`` takes the gradient of each sample alone. In both no layer and no loss can mix two samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedloom.core.inputs import Inputs, map_inputs
from fedloom.core.model.model_output import chosen_output
from fedloom.core.objective import Objective
from fedloom.training.dpsgd.ghost_clipping import (
    chain_layers,
    clip_factors,
    clipped_sums,
    is_convolution,
    leave_out_infinite,
    run_layers,
)
from fedloom.training.keyed_dropout import KeyedDropout, rewind, step_key

if TYPE_CHECKING:
    from fedloom.training.local_trainer import LocalTrainer

NUMBERS_AT_ONCE = 1 << 24
"""About how many numbers of single samples' gradients are in memory at a time."""
Batch = tuple[Inputs, Tensor, Tensor]
"""Inputs and targets, clients × samples, and a mask: 1 for a sample, 0 for padding."""


def clipped_gradient_sums(
    trainer: LocalTrainer,
    stacks: Mapping[str, Tensor],
    moving: Sequence[str],
    batch: Batch,
    keys: Tensor,
    clip: float,
) -> list[Tensor]:
    """The sum over each client's samples of gradients clipped to a norm: a stack per moving tensor.

    Args:
        trainer: Has the model and the loss.
        stacks: The tensors of the clients' models.
        moving: The names of those that are trained; the norm is over all of them.
        batch: The samples.
        keys: A dropout key per client.
        clip: The largest norm of the gradient of one sample.
    """
    x, y, mask = batch
    layers = chain_layers(trainer.model, x) if isinstance(x, Tensor) else None
    shared = {name: tensor.expand(len(mask), *tensor.shape) for name, tensor in trainer.frozen.items()}
    kept = [name for name in moving if layers is None or is_convolution(layers, name)]  # with a gradient per sample
    size = max(1, NUMBERS_AT_ONCE // max(1, sum(stacks[name].numel() for name in kept)))
    total: list[Tensor] = []
    for start in range(0, mask.shape[1], size):
        cut = slice(start, start + size)
        some, targets = map_inputs(itemgetter((slice(None), cut)), x), y[:, cut]
        if layers is not None and isinstance(some, Tensor):
            outputs, trace = run_layers(layers, {**shared, **stacks}, some, keys)
            losses = _sample_losses(trainer.task.objective, outputs.flatten(0, 1), targets.flatten(0, 1))
            part = clipped_sums(losses, trace, moving, mask[:, cut], clip)
        else:
            sample_keys = step_key(keys.unsqueeze(1), torch.arange(mask.shape[1])[cut])
            part = _sums_by_vmap(trainer, stacks, moving, (some, targets, mask[:, cut]), sample_keys, clip)
        total = part if not total else [a + b for a, b in zip(total, part, strict=True)]
    return total


def _sample_losses(objective: Objective, outputs: Tensor, y: Tensor) -> Tensor:
    """The loss of each sample by itself; a sequence counts as the mean over its positions."""

    def one(output: Tensor, target: Tensor) -> Tensor:
        values, counts = objective.losses(output.unsqueeze(0), target.unsqueeze(0))
        return (values / counts.clamp(min=1)).sum()

    return torch.func.vmap(one)(outputs, y)


def _sums_by_vmap(
    trainer: LocalTrainer,
    stacks: Mapping[str, Tensor],
    moving: Sequence[str],
    batch: Batch,
    keys: Tensor,
    clip: float,
) -> list[Tensor]:
    model, objective = trainer.model, trainer.task.objective
    drops = [f"{name}.noise_key" for name, layer in model.named_modules() if isinstance(layer, KeyedDropout)]
    model.train()
    rewind(model)

    def gradients(tensors: dict[str, Tensor], x: Inputs, y: Tensor, key: Tensor) -> dict[str, Tensor]:
        """The gradient of one sample of one client."""
        noise = {name.lstrip("."): key for name in drops}
        sample = map_inputs(lambda tensor: tensor.unsqueeze(0), x)

        def loss(values: dict[str, Tensor]) -> Tensor:
            outputs = torch.func.functional_call(model, {**tensors, **values, **noise}, (sample,))
            return _sample_losses(objective, chosen_output(model, outputs), y.unsqueeze(0)).sum()

        found: dict[str, Tensor] = torch.func.grad(loss)({name: tensors[name] for name in moving})
        return found

    x, y, mask = batch
    of_samples = torch.func.vmap(gradients, in_dims=(None, 0, 0, 0), randomness="error")
    each = torch.func.vmap(of_samples, randomness="error")(dict(stacks), x, y, keys)
    norms = torch.stack([torch.linalg.vector_norm(each[name].flatten(2), dim=2) for name in moving])
    squares = norms.square().sum(0)
    factors = clip_factors(squares, mask, clip)
    return [torch.einsum("bn,bn...->b...", factors, leave_out_infinite(each[name], squares)) for name in moving]
