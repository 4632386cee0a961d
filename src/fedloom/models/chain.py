"""The form most models take: a chain of standard layers that ends in a layer called ``head``.

The vectorised execution reads a plain ``nn.Sequential`` layer by layer, and personalisation methods find the head
by its name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

Shape = Sequence[int]
"""The shape of one input, without the batch: (features), (channels, height, width), (channels, steps) or (steps)."""


def chain(layers: Sequence[nn.Module], head: nn.Module, stages: Sequence[nn.Module] = ()) -> nn.Sequential:
    """The layers in order, numbered, and then the head under its name.

    Args:
        layers: The layers before the head.
        head: The last layer.
        stages: Those of the layers whose outputs are the maps of the model's stages; the model names them in
            ``stages``, from the input on.
    """
    model = nn.Sequential(OrderedDict([*((str(i), layer) for i, layer in enumerate(layers)), ("head", head)]))
    if stages:
        model.stages = tuple(str(i) for i, layer in enumerate(layers) if layer in stages)  # type: ignore[assignment]
    return model


def flat_size(layers: Sequence[nn.Module], input_shape: Shape) -> int:
    """How many numbers the layers make of one input (draws no random number: the layers do not train here)."""
    x = torch.zeros(1, *input_shape)
    with torch.no_grad():
        for layer in layers:
            x = layer.eval()(x)
            layer.train()
    return x.numel()


def dropout(rate: float) -> list[nn.Module]:
    """A dropout layer, or no layer where nothing is dropped."""
    return [nn.Dropout(rate)] if rate > 0 else []


def dense(inputs: int, widths: Sequence[int]) -> list[nn.Module]:
    """Linear layers of the given widths, each with a ReLU after it."""
    return [layer for a, b in pairwise([inputs, *widths]) for layer in (nn.Linear(a, b), nn.ReLU())]
