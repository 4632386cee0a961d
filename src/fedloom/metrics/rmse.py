"""Root mean squared error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.metrics.measured_values import NumberMetric, errors


@dataclass(frozen=True)
class RMSE(NumberMetric):
    """The square root of the mean squared difference between prediction and target; large errors count more."""

    higher_is_better: ClassVar[bool] = False

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of squared differences, and their number."""
        squares = errors(outputs, targets).square()
        return torch.stack([squares.sum(), squares.new_tensor(squares.numel())])

    def value(self, sums: Tensor) -> float:
        """The root of their mean; NaN without samples."""
        return math.sqrt(super().value(sums))
