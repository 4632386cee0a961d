"""Sums of clipped gradients of a chain of layers, without the gradient of any sample.

The gradient of one sample in a linear layer is the product of what went into the layer and what came back to it, so its
norm is a product of two norms, and the sum of clipped gradients is one matrix product (ghost clipping: Goodfellow,
https://arxiv.org/abs/1510.01799; Li, Tramèr, Liang and Hashimoto, https://arxiv.org/abs/2110.05679). A convolution is a
linear layer on patches; its few weights get a gradient per sample. All of these layers act on each sample alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.training.keyed_dropout import KeyedDropout
from fedloom.training.layer_graph import ELEMENTWISE, flattens, has_ties, hooked_layer
from fedloom.training.stacked import linear

POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
PATCHES_AT_ONCE = 1 << 22
"""About how many numbers of patches are in memory at a time."""
Layers = Sequence[tuple[str, nn.Module]]
Trace = dict[str, tuple[nn.Module, Tensor, Tensor]]
"""Of each layer with weights: the layer, what went in, and what came out, clients × samples × ..."""


def chain_layers(model: nn.Module, x: Tensor) -> Layers | None:
    """The layers of a chain of linear layers, convolutions, pools and elementwise layers; None for any other model.

    Args:
        x: Its inputs, clients × samples × ...
    """
    layers = None if has_ties(model) or hooked_layer(model) is not None else _layers(model)
    if layers is None:
        return None
    flat = x.dim() == 3
    for _, layer in layers:
        if isinstance(layer, nn.Linear | nn.Conv2d) and flat != isinstance(layer, nn.Linear):
            return None
        flat = flat or isinstance(layer, nn.Flatten)
    return layers


def _layers(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    if type(model) is not nn.Sequential:
        return None
    found: list[tuple[str, nn.Module]] = []
    for name, layer in model._modules.items():
        if type(layer) is nn.Sequential:
            inner = _layers(layer)
            if inner is None:
                return None
            found += [(f"{name}.{deeper}", module) for deeper, module in inner]
        elif layer is not None and (
            type(layer) in (nn.Linear, KeyedDropout, *ELEMENTWISE, *POOLS) or flattens(layer) or _is_plain(layer)
        ):
            found.append((name, layer))
        else:
            return None
    return found


def _is_plain(layer: nn.Module) -> bool:
    """Whether a layer is a convolution of all channels, padded with zeros."""
    return type(layer) is nn.Conv2d and layer.groups == 1 and layer.padding_mode == "zeros"


def run_layers(layers: Layers, stacks: Mapping[str, Tensor], x: Tensor, keys: Tensor) -> tuple[Tensor, Trace]:
    """The outputs of clients' models, and what each layer with weights saw and gave.

    Args:
        layers: The layers of the model.
        stacks: The tensors of the clients' models.
        x: The inputs, clients × samples × ...
        keys: A dropout key per client.
    """
    trace: Trace = {}
    for name, layer in layers:
        seen = x
        if isinstance(layer, nn.Linear):
            x = linear(name, stacks, x)
        elif isinstance(layer, nn.Conv2d):
            x = _convolve(layer, stacks[f"{name}.weight"], stacks.get(f"{name}.bias"), x)
        elif isinstance(layer, KeyedDropout):
            x = layer.drop(x, keys)
        elif isinstance(layer, nn.Flatten):
            x = x.flatten(2)
        elif isinstance(layer, POOLS):
            x = layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        else:
            x = layer(x)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            if not x.requires_grad:
                x.requires_grad_()
            trace[name] = (layer, seen.detach(), x)
    return x, trace


def _convolve(layer: nn.Conv2d, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """The convolution of many clients, each with its own weights, as one with a group per client."""
    clients, samples = x.shape[:2]
    together = x.transpose(0, 1).flatten(1, 2)
    out = F.conv2d(
        together,
        weight.flatten(0, 1),
        None if bias is None else bias.flatten(),
        layer.stride,
        layer.padding,
        layer.dilation,
        clients,
    )
    return out.view(samples, clients, -1, *out.shape[2:]).transpose(0, 1)


def clipped_sums(losses: Tensor, trace: Trace, moving: Sequence[str], mask: Tensor, clip: float) -> list[Tensor]:
    """The sum over each client's samples of gradients clipped to a norm: a stack per moving tensor.

    Args:
        losses: The loss of every sample.
        trace: What each layer with weights saw and gave.
        moving: The names of the tensors that are trained; the norm is over all of them.
        mask: 1 for a sample, 0 for padding.
        clip: The largest norm of the gradient of one sample.
    """
    back = torch.autograd.grad(losses.sum(), tuple(out for *_, out in trace.values()))
    squares, sums = torch.zeros_like(mask), dict[str, Tensor]()
    each: dict[str, Tensor] = {}
    with torch.no_grad():
        for (name, (layer, seen, _)), gradient in zip(trace.items(), back, strict=True):
            if isinstance(layer, nn.Linear):
                inputs = seen.square().sum(2) if f"{name}.weight" in moving else torch.zeros_like(mask)
                squares += (inputs + (f"{name}.bias" in moving)) * gradient.square().sum(2)
                continue
            for key, of_samples in _of_convolution(layer, name, seen, gradient).items():
                if key in moving:
                    each[key] = of_samples
                    squares += of_samples.flatten(2).square().sum(2)
        factors = clip_factors(squares, mask, clip)
        for (name, (layer, seen, _)), gradient in zip(trace.items(), back, strict=True):
            if isinstance(layer, nn.Linear):
                scaled = leave_out_infinite(gradient, squares) * factors.unsqueeze(2)
                sums[f"{name}.weight"] = torch.bmm(scaled.transpose(1, 2), leave_out_infinite(seen, squares))
                sums[f"{name}.bias"] = scaled.sum(1)
        for key, of_samples in each.items():
            sums[key] = torch.einsum("bn,bn...->b...", factors, leave_out_infinite(of_samples, squares))
    return [sums[name] for name in moving]


def _of_convolution(layer: nn.Module, name: str, seen: Tensor, gradient: Tensor) -> dict[str, Tensor]:
    """The gradients of single samples in a convolution: clients × samples × its shape."""
    assert isinstance(layer, nn.Conv2d)  # noqa: S101
    lead, rows = seen.shape[:2], seen.flatten(0, 1)
    back = gradient.flatten(0, 1).flatten(2)
    each = layer.weight[0].numel() * back.shape[2]  # numbers in the patches of one sample
    parts = []
    size = max(1, PATCHES_AT_ONCE // each)
    for some, gave in zip(torch.split(rows, size), torch.split(back, size), strict=True):
        patches = _patches(layer, F.pad(some, _padding(layer)), gradient.shape[3:])
        parts.append(torch.bmm(gave, patches.transpose(1, 2)))
    weight = torch.cat(parts).view(*lead, *layer.weight.shape)
    return {f"{name}.weight": weight, f"{name}.bias": back.sum(2).view(*lead, -1)}


def _patches(layer: nn.Conv2d, x: Tensor, places: Sequence[int]) -> Tensor:
    """What a convolution sees at each of its places: samples × numbers × places (``F.unfold`` takes longer)."""
    (high, wide), (down, right) = layer.dilation, layer.stride
    sample, channel, row, column = x.stride()
    return x.as_strided(
        (*x.shape[:2], *layer.kernel_size, *places),
        (sample, channel, high * row, wide * column, down * row, right * column),
    ).reshape(len(x), -1, math.prod(places))


def is_convolution(layers: Layers, name: str) -> bool:
    """Whether a tensor belongs to a convolution of a chain.

    Args:
        layers: The layers of the chain.
        name: The name of the tensor.
    """
    return isinstance(dict(layers)[name.rpartition(".")[0]], nn.Conv2d)


def _padding(layer: nn.Conv2d) -> list[int]:
    """How many zeros stand left, right, above and below, as ``F.pad`` takes them."""
    if isinstance(layer.padding, str):
        return list(layer._reversed_padding_repeated_twice)
    high, wide = layer.padding
    return [wide, wide, high, high]


def clip_factors(squares: Tensor, mask: Tensor, clip: float) -> Tensor:
    """What each sample's gradient is multiplied by: at most 1, and 0 for padding and for a norm that is not finite.

    Args:
        squares: The square of its norm.
        mask: 1 for a sample, 0 for padding.
        clip: The largest norm.
    """
    factors = mask * (clip / squares.sqrt().clamp(min=torch.finfo(squares.dtype).tiny)).clamp(max=1.0)
    return torch.where(squares.isfinite(), factors, 0.0)


def leave_out_infinite(of_samples: Tensor, squares: Tensor) -> Tensor:
    """Numbers of samples, with 0 for each sample whose gradient is not finite.

    Zero times infinity is not zero: one sample would decide whether its client diverges, which noise does not hide.

    Args:
        of_samples: The numbers, clients × samples × ...
        squares: The square of the norm of each sample's gradient.
    """
    finite = squares.isfinite()
    if bool(finite.all()):
        return of_samples
    return torch.where(finite.view(*finite.shape, *[1] * (of_samples.dim() - 2)), of_samples, 0.0)
