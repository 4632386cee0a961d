"""The gradients of single samples, each clipped to a norm, and their sum, for many clients at once.

A chain of linear layers never holds the gradient of a sample: its norm is a product of the norms of what goes into and
out of each layer (ghost clipping: Goodfellow, https://arxiv.org/abs/1510.01799; Li, Tramèr, Liang and Hashimoto,
https://arxiv.org/abs/2110.05679), and the sum of clipped gradients is one more product. For any other model
``torch.func.vmap`` takes the gradient of each sample alone. In both a sample is a batch of its own, so no layer and no
loss can mix two of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs, map_inputs
from fedloom.core.model_output import chosen_output
from fedloom.core.objective import Objective
from fedloom.training.keyed_dropout import KeyedDropout, rewind, step_key
from fedloom.training.layer_graph import LayerGraph, sequential_graph
from fedloom.training.stacked import linear, run_step

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
    chain = None if isinstance(batch[0], dict) else linear_chain(trainer.model, batch[0])
    if chain is not None:
        return _sums_of_chain(chain, trainer.task.objective, stacks, moving, batch, keys, clip)
    width = sum(stacks[name].numel() for name in moving)
    size = max(1, NUMBERS_AT_ONCE // width)
    x, y, mask = batch
    total: list[Tensor] = []
    for start in range(0, mask.shape[1], size):
        cut = slice(start, start + size)
        some = (map_inputs(itemgetter((slice(None), cut)), x), y[:, cut], mask[:, cut])
        sample_keys = step_key(keys.unsqueeze(1), torch.arange(mask.shape[1])[cut])
        part = _sums_by_vmap(trainer, stacks, moving, some, sample_keys, clip)
        total = part if not total else [a + b for a, b in zip(total, part, strict=True)]
    return total


def linear_chain(model: nn.Module, x: Inputs) -> LayerGraph | None:
    """The layers of a model that is a chain of linear and elementwise layers on vectors; None for any other."""
    graph = sequential_graph(model)
    flat = isinstance(x, Tensor) and (x.dim() == 3 or _flattens_first(graph))
    return graph if graph is not None and flat else None


def _flattens_first(graph: LayerGraph | None) -> bool:
    """Whether nothing but elementwise layers comes before the first flatten, and no linear layer."""
    if graph is None:
        return False
    for step in graph.training:
        if not isinstance(step.layer, nn.Module):
            return True
        if isinstance(step.layer, nn.Linear):
            return False
    return False


def _sample_losses(objective: Objective, outputs: Tensor, y: Tensor) -> Tensor:
    """The loss of each sample by itself; a sequence counts as the mean over its positions."""

    def one(output: Tensor, target: Tensor) -> Tensor:
        values, counts = objective.losses(output.unsqueeze(0), target.unsqueeze(0))
        return (values / counts.clamp(min=1)).sum()

    return torch.func.vmap(one)(outputs, y)


def _factors(squares: Tensor, mask: Tensor, clip: float) -> Tensor:
    """What each sample's gradient is multiplied by: at most 1, and 0 for padding."""
    return mask * (clip / squares.sqrt().clamp(min=torch.finfo(squares.dtype).tiny)).clamp(max=1.0)


def _sums_of_chain(
    graph: LayerGraph,
    objective: Objective,
    stacks: Mapping[str, Tensor],
    moving: Sequence[str],
    batch: Batch,
    keys: Tensor,
    clip: float,
) -> list[Tensor]:
    x, y, mask = batch
    assert isinstance(x, Tensor)  # noqa: S101
    taken: dict[str, Tensor] = {}
    given: dict[str, Tensor] = {}
    value = x
    for step in graph.training:
        if not isinstance(step.layer, nn.Linear):
            value = run_step(step, [value], stacks, keys)
            continue
        taken[step.name] = value.detach()
        value = linear(step.name, stacks, value)
        if not value.requires_grad:
            value.requires_grad_()
        given[step.name] = value
    losses = _sample_losses(objective, value.flatten(0, 1), y.flatten(0, 1))
    back = dict(zip(given, torch.autograd.grad(losses.sum(), tuple(given.values())), strict=True))
    with torch.no_grad():
        squares = torch.zeros_like(mask)
        for name, gradient in back.items():
            inputs = taken[name].square().sum(2) if f"{name}.weight" in moving else torch.zeros_like(mask)
            squares += (inputs + (f"{name}.bias" in moving)) * gradient.square().sum(2)
        factors = _factors(squares, mask, clip).unsqueeze(2)
        sums = {}
        for name, gradient in back.items():
            scaled = gradient * factors
            sums[f"{name}.weight"] = torch.bmm(scaled.transpose(1, 2), taken[name])
            sums[f"{name}.bias"] = scaled.sum(1)
    return [sums[name] for name in moving]


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
    squares = torch.stack([each[name].flatten(2).square().sum(2) for name in moving]).sum(0)
    factors = _factors(squares, mask, clip)
    return [torch.einsum("bn,bn...->b...", factors, each[name]) for name in moving]
