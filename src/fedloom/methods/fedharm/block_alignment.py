"""Block alignment: which block of one network does what a block of another does.

A block is represented by the angles between its map and the axes, ``theta_i = arccos(f_i / |f|)``, of many samples: a
histogram of them from 0 to pi. Two blocks are alike if the Kullback-Leibler divergences between their histograms, in
both directions, are small. The map of blocks is the strictly increasing one with the smallest sum of both divergences.

Appendix F of the thesis that ``fedharm.py`` names. Where we differ: the thesis picks each pair by the distance between
the two directed minima, which may send two blocks to the same one, and for CIFAR-10 it does not follow its own table
(block 3 goes to 6, the table's smallest is 3). Every bin starts with one count, since an empty one would make the
divergence infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import pi

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.model.stages import stage_maps


def angle_histogram(maps: Tensor, bins: int) -> Tensor:
    """The distribution of the angles between samples' maps and the axes over equal bins from 0 to pi.

    Args:
        maps: n×...; a map of zeros is at a right angle to every axis.
        bins: How many bins.
    """
    angles = F.normalize(maps.double().flatten(1), dim=1).clamp(-1, 1).arccos()
    counts = 1 + torch.histc(angles, bins, min=0.0, max=pi)
    return counts / counts.sum()


def kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    """``sum p log(p / q)`` over the last axis.

    Args:
        p: Distributions; zeros count as nothing.
        q: Distributions without zeros where p has none.
    """
    found: Tensor = (torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum(-1)
    return found


def divergences(a: Tensor, b: Tensor) -> Tensor:
    """KL of each block of network a to each block of network b: blocks of a × blocks of b.

    Args:
        a: A histogram per block of a.
        b: A histogram per block of b.
    """
    return kl_divergence(a.unsqueeze(1), b.unsqueeze(0))


def increasing_map(costs: Tensor) -> tuple[int, ...]:
    """The strictly increasing choice of one column per row with the smallest sum; of equal sums the first columns.

    Args:
        costs: rows × columns, with at least as many columns as rows.
    """
    rows, columns = costs.shape
    best, picks = torch.zeros(columns + 1, dtype=costs.dtype), []
    for row in range(rows):  # best[j]: the smallest sum of the rows so far with columns below j
        least, pick = torch.full((columns + 1,), torch.inf, dtype=costs.dtype), torch.zeros(columns + 1).long()
        for j in range(columns):
            cost = best[j] + costs[row, j]
            better = bool(cost < least[j])
            least[j + 1], pick[j + 1] = (cost, j) if better else (least[j], pick[j])
        best = least
        picks.append(pick)
    chosen, end = [], columns
    for pick in reversed(picks):
        end = int(pick[end])
        chosen.append(end)
    return tuple(reversed(chosen))


def align_histograms(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """The block of network b, counted from 1, for each block of network a.

    Args:
        a: A histogram per block of a, the network with fewer blocks.
        b: A histogram per block of b.
    """
    if len(a) > len(b):
        raise FedloomError(
            f"a network of {len(a)} blocks cannot be aligned to one of {len(b)}: give the one with fewer blocks first."
        )
    return tuple(place + 1 for place in increasing_map(divergences(a, b) + divergences(b, a).T))


@torch.no_grad()
def block_histograms(model: nn.Module, x: Inputs, bins: int = 100) -> Tensor:
    """The histograms of angles of a network's stages, one row per stage.

    Args:
        model: A network that names its stages.
        x: Prepared inputs of some samples.
        bins: How many bins.
    """
    return torch.stack([angle_histogram(one, bins) for one in stage_maps(model, x)])


def align_blocks(a: nn.Module, b: nn.Module, x: Inputs, bins: int = 100) -> tuple[int, ...]:
    """The block of network b, counted from 1, for each block of network a.

    Args:
        a: A network that names its stages (``model.stages``), with no more of them than b.
        b: Another one.
        x: Prepared inputs of some samples, the same for both.
        bins: How many bins the histograms of angles have.
    """
    _check_bins(bins)
    return align_histograms(block_histograms(a, x, bins), block_histograms(b, x, bins))


def _check_bins(bins: int) -> None:
    if bins < 2:
        raise FedloomError(f"bins={bins}: a histogram of angles needs at least two bins.")


def check_map(name: str, blocks: Sequence[int], stages: int) -> None:
    """Refuse a map of blocks that a network cannot have.

    Args:
        name: The architecture.
        blocks: The network's block for each aligned block, counted from 1.
        stages: How many blocks the network has.
    """
    increasing = all(first < second for first, second in pairwise(blocks))
    if not blocks or not increasing or not 1 <= blocks[0] <= blocks[-1] <= stages:
        raise FedloomError(
            f"align maps {name} to the blocks {list(blocks)}: give increasing numbers from 1 to {stages}, which are "
            "its stages."
        )
