"""A network over several input columns: a branch for each, and one head over what all branches give."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor, nn

from fedloom.models.chain import Shape, dense, flat_size
from fedloom.models.model_kind import takes_columns

SUFFIX = "_branch"


class LateFusion(nn.Module):
    """A branch per column whose outputs are concatenated, then a layer of ``width``, then the head."""

    def __init__(self, branches: Mapping[str, nn.Module], fused: int, classes: int, width: int) -> None:
        super().__init__()
        self.columns = tuple(branches)
        for name, branch in branches.items():
            self.add_module(name + SUFFIX, branch)
        self.fusion = nn.Sequential(*dense(fused, (width,)))
        self.head = nn.Linear(width, classes)

    def features(self, x: Mapping[str, Tensor]) -> Tensor:
        """What the head sees: N × width."""
        branches = [self.get_submodule(name + SUFFIX)(x[name]) for name in self.columns]
        seen: Tensor = self.fusion(torch.cat(branches, dim=1))
        return seen

    def forward(self, x: Mapping[str, Tensor]) -> Tensor:
        """The logits of samples whose columns are tensors by name: N × classes."""
        logits: Tensor = self.head(self.features(x))
        return logits


@takes_columns
def late_fusion(input_shape: Mapping[str, Shape], classes: int, width: int = 64) -> nn.Module:
    """A branch per input column, their outputs concatenated, then a linear layer of 64 (UCI HAR in two columns).

    A signal (channels, steps) of at least 16 steps goes through the two convolutions of ``conv1d``, with 32 filters
    each; any other column is flattened and goes through a linear layer of ``width``.
    """
    branches, fused = {}, 0
    for name, shape in input_shape.items():
        if len(shape) == 2 and shape[1] >= 16:
            layers: list[nn.Module] = [
                *(nn.Conv1d(shape[0], 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4)),
                *(nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(4)),
                nn.Flatten(),
            ]
        else:
            layers = [nn.Flatten(), *dense(prod(shape), (width,))]
        branches[name] = nn.Sequential(*layers)
        fused += flat_size(layers, shape)
    return LateFusion(branches, fused, classes, width)
