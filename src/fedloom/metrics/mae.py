"""Mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.metrics.measured_values import NumberMetric, errors


@dataclass(frozen=True)
class MAE(NumberMetric):
    """The mean absolute difference between prediction and target, over samples and their components."""

    higher_is_better: ClassVar[bool] = False

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of absolute differences, and their number."""
        distances = errors(outputs, targets).abs()
        return torch.stack([distances.sum(), distances.new_tensor(distances.numel())])
