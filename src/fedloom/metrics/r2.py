"""The coefficient of determination."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.metrics.measured_values import NumberMetric, errors


@dataclass(frozen=True)
class R2(NumberMetric):
    """1 - squared error / squared distance of the targets from their own mean: 1 is perfect, 0 is the mean's.

    The mean is that of the samples that are measured: a client's own, or all clients' where results are pooled. It is
    undefined where all targets are equal, or differ by less than a millionth of their size.
    """

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sums of squared errors, of targets, of their squares, and their number."""
        true = targets.double()
        return torch.stack(
            [errors(outputs, targets).square().sum(), true.sum(), true.square().sum(), true.new_tensor(true.numel())]
        )

    def value(self, sums: Tensor) -> float:
        """The share of the targets' variance that is explained; NaN where they do not vary."""
        wrong, total, squares, count = sums.tolist()
        variation = squares - total * total / count if count else 0.0
        return 1 - wrong / variation if variation > 1e-12 * squares else math.nan
