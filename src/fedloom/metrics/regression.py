"""Metrics of measured values: mean absolute error, root mean squared error, and the coefficient of determination."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.task import Task
from fedloom.metrics.classification import is_measured


class NumberMetric(Metric):
    """A metric of predicted numbers, in the units of the targets."""

    def check(self, task: Task) -> None:
        """Refuse a task whose targets are classes or labels."""
        if not is_measured(task):
            what = "labels: use macro_f1" if task.kind == "labels" else "classes: use accuracy, macro_f1 or auc"
            raise FedloomError(
                f"metric {self.name} needs measured values, but the targets of task {task.name} are {what}."
            )


def errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Predictions minus targets, in double precision."""
    return outputs.double() - targets.view_as(outputs)


@dataclass(frozen=True)
class MAE(NumberMetric):
    """The mean absolute difference between prediction and target, over samples and their components."""

    higher_is_better: ClassVar[bool] = False

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of absolute differences, and their number."""
        distances = errors(outputs, targets).abs()
        return torch.stack([distances.sum(), distances.new_tensor(distances.numel())])


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
