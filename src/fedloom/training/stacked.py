"""The forward pass of many clients at once.

Where a model is a graph of linear and elementwise layers (``training/layer_graph.py``), its cohort form is a few
batched matrix products. Any other model goes through ``torch.func.vmap`` with gradients from ordinary autograd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs
from fedloom.core.model.model_output import chosen_output
from fedloom.training.keyed_dropout import KeyedDropout, rewind
from fedloom.training.layer_graph import LayerGraph, Operation

NARROW = 16
"""Below this many outputs a batched product is faster with its result transposed (measured, bench/local.py)."""


class StackedLinear(torch.autograd.Function):
    """B linear layers at once: x is B×n×i, weight B×o×i, bias B×o (or None)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        back = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        to_weight = torch.bmm(gradient.transpose(1, 2), x) if ctx.needs_input_grad[1] else None
        return back, to_weight, gradient.sum(1) if ctx.needs_input_grad[2] else None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.shape[1] < NARROW:
        wide = torch.bmm(weight, x.transpose(1, 2))
        return (wide if bias is None else wide.add_(bias.unsqueeze(2))).transpose(1, 2).contiguous()
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2))
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def linear(name: str, stacks: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """The linear layers of B clients, which act on the last axis regardless of the axes before it."""
    weight, bias = stacks[f"{name}.weight"], stacks.get(f"{name}.bias")
    lead = x.shape[1:-1]
    flat = x.flatten(1, -2) if len(lead) != 1 else x
    function = StackedLinear.apply if torch.is_grad_enabled() else _product
    out: Tensor = function(flat, weight, bias)
    return out.view(len(out), *lead, -1) if len(lead) != 1 else out


def run_operation(
    operation: Operation, inputs: Sequence[Tensor], stacks: Mapping[str, Tensor], keys: Tensor | None
) -> Tensor:
    """The result of one operation of B clients; without ``keys`` nothing is dropped."""
    if isinstance(operation.layer, nn.Linear):
        return linear(operation.name, stacks, inputs[0])
    if isinstance(operation.layer, KeyedDropout):
        return inputs[0] if keys is None else operation.layer.drop(inputs[0], keys, operation.turn)
    return operation.layer(*inputs)


def run_graph(graph: LayerGraph, stacks: Mapping[str, Tensor], x: Tensor, keys: Tensor | None) -> Tensor:
    """The outputs (B×n×...) of B clients; without ``keys`` the model is evaluated, and nothing is dropped."""
    values = [x]
    for operation in graph.evaluation if keys is None else graph.training:
        values.append(run_operation(operation, [values[place] for place in operation.inputs], stacks, keys))
    return values[-1]


def run_stacked(
    model: nn.Module, graph: LayerGraph | None, stacks: Mapping[str, Tensor], x: Inputs, keys: Tensor | None
) -> Tensor:
    """The outputs of B clients of any model: by its graph where it has one and takes one tensor, else with vmap."""
    if graph is not None and isinstance(x, Tensor):
        return run_graph(graph, stacks, x, keys)
    return run_vmap(model, stacks, x, keys)


def run_vmap(model: nn.Module, stacks: Mapping[str, Tensor], x: Inputs, keys: Tensor | None) -> Tensor:
    """The same for any model that ``torch.func.vmap`` can take; x is B×n×..."""
    drops = [f"{name}.noise_key" for name, layer in model.named_modules() if isinstance(layer, KeyedDropout)]

    def one(tensors: Mapping[str, Tensor], x: Inputs, key: Tensor) -> Tensor:
        noise = {name.lstrip("."): key for name in drops}
        return chosen_output(model, torch.func.functional_call(model, {**tensors, **noise}, (x,)))

    model.train(keys is not None)
    rewind(model)
    keys = keys if keys is not None else torch.zeros(len(next(iter(stacks.values()))), dtype=torch.int64)
    outputs: Tensor = torch.func.vmap(one, randomness="error")(dict(stacks), x, keys)
    return outputs


def gradients_of(loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of a loss; zeros for what takes no part in it."""
    return list(torch.autograd.grad(loss, tuple(leaves), allow_unused=True, materialize_grads=True))
