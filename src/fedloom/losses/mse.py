"""Mean squared error."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.objective import Loss


@dataclass(frozen=True)
class MSE(Loss):
    """The squared error of a number."""

    kinds = ("number",)
    score = "squared_error"

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The squared error of each sample."""
        return distances(outputs, targets).square().mean(1), torch.ones(len(targets))

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The squared error of each sample."""
        return distances(outputs, targets).square().mean(1), torch.ones(len(targets))


def distances(outputs: Tensor, targets: Tensor) -> Tensor:
    """Outputs minus targets, a row per sample."""
    return (outputs - targets.view_as(outputs)).reshape(len(targets), -1)
