"""Descriptors: what a network says of a sample, in a form that does not depend on its architecture.

Gradient selection (equation 9.1 of the thesis that ``fedharm.py`` names): of a block's map ``F``, flattened over
channels and places, the K entries with the largest ``|d p_c / d F|``, where ``p_c`` is the probability of the sample's
true class, in descending order of it. Position r of a descriptor is then the r-th most influential entry in every
network; without a fixed order a mean over different networks would mean nothing. The thesis does not say that the order
is fixed.

Pooling (its appendix F.1): the last block's map, max-pooled, and a random crop of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.inputs import Inputs, map_inputs
from fedloom.core.model.stages import stage_names
from fedloom.core.network import Network


def influences(net: Network, x: Inputs, labels: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The maps of a network's stages, and how much each of their entries moves the probability of the true class.

    The gradients are those of log p_c / (1 - p_c): for one sample they are those of p_c times 1 / (p_c (1 - p_c)), so
    their order is the same, and they do not vanish where the network is sure.

    Args:
        net: One client's network.
        x: Prepared inputs.
        labels: The samples' classes.
    """
    _, single = net.stages(map_inputs(lambda column: column[:1], x))  # for the shapes of the maps

    def log_odds(shifts: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        with _shifted_stages(net.model, shifts) as maps:
            outputs = net(x)
        is_true = F.one_hot(labels, outputs.shape[1]).bool()
        others = outputs.masked_fill(is_true, -torch.inf).logsumexp(1)
        return outputs.masked_fill(~is_true, 0.0).sum() - others.sum(), maps

    zeros = [torch.zeros_like(one).expand(len(labels), *one.shape[1:]) for one in single]
    slopes, maps = torch.func.grad(log_odds, has_aux=True)(zeros)
    return maps, [slope.abs() for slope in slopes]


@contextmanager
def _shifted_stages(model: nn.Module, shifts: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """A model whose stages give their maps plus a shift: the gradient in the shift is that in the map.

    The maps of the next pass are in the list, without a gradient.
    """
    hooks, maps = [], list(shifts)
    for place, name in enumerate(stage_names(model)):

        def add(module: nn.Module, inputs: Any, output: Tensor, place: int = place) -> Tensor:  # noqa: ARG001
            maps[place] = output.detach()
            return output + shifts[place]

        hooks.append(model.get_submodule(name).register_forward_hook(add))
    try:
        yield maps
    finally:
        for hook in hooks:
            hook.remove()


def most_influential(influence: Tensor, k: int) -> Tensor:
    """The places of the k largest entries of each sample's flattened map, largest first; of equal ones the first.

    Args:
        influence: n×..., see ``influences``.
        k: How many.
    """
    return influence.flatten(1).sort(dim=1, descending=True, stable=True).indices[:, :k]


def entries_at(maps: Sequence[Tensor], places: Tensor, k: Sequence[int]) -> Tensor:
    """The descriptor: each map's entries at its places, one map after the other.

    Args:
        maps: The aligned blocks' maps, each n×...
        places: The places of all blocks beside each other, n×sum(k).
        k: How many places each block has.
    """
    own = torch.split(places.long(), list(k), dim=1)
    return torch.cat([one.flatten(1).gather(1, where) for one, where in zip(maps, own, strict=True)], dim=1)


def pooled_width(shape: Sequence[int]) -> int:
    """How many numbers ``pool_and_crop`` crops from.

    Args:
        shape: The shape of one sample's last map.
    """
    return _pool(torch.zeros(1, *shape)).shape[1]


def pool_and_crop(last: Tensor, width: int, place: float) -> Tensor:
    """The last map max-pooled by 2×2 (a map of a single row or column stays as it is) and flattened; a crop of it.

    Args:
        last: The last block's map, n×channels×height×width.
        width: The width of the crop.
        place: Where the crop starts, from 0, the first place that is possible, to 1, the last.
    """
    pooled = _pool(last)
    start = min(int(place * (pooled.shape[1] - width + 1)), pooled.shape[1] - width)
    return pooled[:, start : start + width]


def _pool(last: Tensor) -> Tensor:
    return (F.max_pool2d(last, 2) if last.dim() == 4 and min(last.shape[2:]) > 1 else last).flatten(1)


def cosine_distance(found: Tensor, goal: Tensor) -> Tensor:
    """``1 - cos`` of each sample's descriptors; 1 where one of them is zero.

    Args:
        found: n×width.
        goal: The same shape.
    """
    return 1 - F.cosine_similarity(found, goal, dim=1)
