"""The forward pass of many clients at once, and the SGD step inside its backward pass.

Where a model is a graph of linear and elementwise layers (``training/layer_graph.py``), its cohort form is a few
batched matrix products. When the local optimiser is plain SGD, the weight gradient is never stored: the product that
computes it is accumulated straight into the weights (``W -= lr * G^T X`` is one call), which halves the memory traffic
of a step. Any other model goes through ``torch.func.vmap`` with gradients from ordinary autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs
from fedloom.training.keyed_dropout import KeyedDropout, rewind
from fedloom.training.layer_graph import LayerGraph

NARROW = 16
"""Below this many outputs a batched product is faster with its result transposed (measured, bench/local.py)."""

Stacks = Mapping[str, Tensor]


@dataclass(frozen=True)
class InPlace:
    """A plain SGD step that a layer's backward pass applies to its own weights."""

    lr: float
    decay: float
    """What a weight adds to its own gradient: weight decay, and the slope of an affine pull."""
    constants: Stacks
    """The constant part of an affine pull; empty without one."""
    pull: Callable[[str, Tensor], Tensor] | None
    """Any other pull."""
    moving: frozenset[str]

    def apply(self, name: str, weight: Tensor, gradient: Callable[[Tensor, float, float], object]) -> None:
        """``weight <- (1 - lr * decay) * weight - lr * (gradient + pull)``; ``gradient(out, beta, alpha)`` adds it."""
        if name not in self.moving:
            return
        pulled = self.constants.get(name) if self.pull is None else self.pull(name, weight)
        gradient(weight, 1 - self.lr * self.decay, -self.lr)
        if pulled is not None:
            weight.sub_(pulled, alpha=self.lr)


class StackedLinear(torch.autograd.Function):
    """B linear layers at once: x is B×n×i, weight B×o×i, bias B×o (or None)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, name: str, in_place: InPlace | None
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias, ctx.name, ctx.in_place = bias, name, in_place
        if weight.shape[1] < NARROW:
            wide = torch.bmm(weight, x.transpose(1, 2))
            return (wide if bias is None else wide.add_(bias.unsqueeze(2))).transpose(1, 2).contiguous()
        if bias is None:
            return torch.bmm(x, weight.transpose(1, 2))
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        back = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        in_place: InPlace | None = ctx.in_place
        if in_place is None:
            to_weight = torch.bmm(gradient.transpose(1, 2), x) if ctx.needs_input_grad[1] else None
            to_bias = gradient.sum(1) if ctx.needs_input_grad[2] else None
            return back, to_weight, to_bias, None, None
        in_place.apply(
            f"{ctx.name}.weight",
            weight.detach(),
            lambda out, beta, alpha: out.baddbmm_(gradient.transpose(1, 2), x, beta=beta, alpha=alpha),
        )
        if ctx.bias is not None:
            in_place.apply(
                f"{ctx.name}.bias",
                ctx.bias.detach(),
                lambda out, beta, alpha: (out if beta == 1 else out.mul_(beta)).add_(gradient.sum(1), alpha=alpha),
            )
        return back, None, None, None, None


def run_graph(
    graph: LayerGraph,
    stacks: Mapping[str, Tensor],
    x: Tensor,
    keys: Tensor | None,
    in_place: InPlace | None = None,
) -> Tensor:
    """The outputs (B×n×...) of B clients; without ``keys`` the model is evaluated, and nothing is dropped."""
    values = [x]
    for step in graph.evaluation if keys is None else graph.training:
        inputs = [values[place] for place in step.inputs]
        if isinstance(step.layer, nn.Linear):
            values.append(_linear(step.name, stacks, inputs[0], in_place))
        elif isinstance(step.layer, KeyedDropout):
            values.append(inputs[0] if keys is None else step.layer.drop(inputs[0], keys, step.turn))
        else:
            values.append(step.layer(*inputs))
    return values[-1]


def _linear(name: str, stacks: Mapping[str, Tensor], x: Tensor, in_place: InPlace | None) -> Tensor:
    """A linear layer, which acts on the last axis regardless of the axes before it."""
    weight, bias = stacks[f"{name}.weight"], stacks.get(f"{name}.bias")
    lead = x.shape[1:-1]
    flat = x.flatten(1, -2) if len(lead) != 1 else x
    out: Tensor = StackedLinear.apply(flat, weight, bias, name, in_place)  # type: ignore[no-untyped-call]
    return out.view(len(out), *lead, -1) if len(lead) != 1 else out


def run_stacked(
    model: nn.Module,
    graph: LayerGraph | None,
    stacks: Mapping[str, Tensor],
    x: Inputs,
    keys: Tensor | None,
    in_place: InPlace | None = None,
) -> Tensor:
    """The outputs of B clients of any model: step by step where it is a graph over one tensor, else with vmap."""
    if graph is not None and isinstance(x, Tensor):
        return run_graph(graph, stacks, x, keys, in_place)
    return run_vmap(model, stacks, x, keys)


def run_vmap(model: nn.Module, stacks: Mapping[str, Tensor], x: Inputs, keys: Tensor | None) -> Tensor:
    """The same for any model that ``torch.func.vmap`` can take; x is B×n×..."""
    drops = [f"{name}.noise_key" for name, layer in model.named_modules() if isinstance(layer, KeyedDropout)]

    def one(tensors: Mapping[str, Tensor], x: Inputs, key: Tensor) -> Tensor:
        noise = {name.lstrip("."): key for name in drops}
        result: Tensor = torch.func.functional_call(model, {**tensors, **noise}, (x,))
        return result

    model.train(keys is not None)
    rewind(model)
    keys = keys if keys is not None else torch.zeros(len(next(iter(stacks.values()))), dtype=torch.int64)
    outputs: Tensor = torch.func.vmap(one, randomness="error")(dict(stacks), x, keys)
    return outputs


def gradients_of(loss: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """Gradients of a loss; zeros for what takes no part in it."""
    return list(torch.autograd.grad(loss, tuple(leaves), allow_unused=True, materialize_grads=True))
