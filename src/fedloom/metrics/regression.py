"""Metrics of measured values: mean absolute error, root mean squared error, and the coefficient of determination."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
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
    undefined where all targets are equal, or differ by less than a millionth of their size. Where a sample has several
    numbers, it is the mean of the R2 of each, since these may have different units.
    """

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sums of squared errors, of targets, of their squares, and their number, for each number of a target."""
        true, wrong = targets.double(), errors(outputs, targets)
        several = true.dim() == 2 and true.shape[1] > 1
        pairs = zip(wrong.unbind(1), true.unbind(1), strict=True) if several else [(wrong, true)]
        found = [[w.square().sum(), t.sum(), t.square().sum(), t.new_tensor(t.numel())] for w, t in pairs]
        return torch.stack([total for four in found for total in four])

    def value(self, sums: Tensor) -> float:
        """The share of the targets' variance that is explained; NaN where they do not vary."""
        shares = [self._share(*four) for four in sums.view(-1, 4).tolist()]
        return sum(shares) / len(shares)

    @staticmethod
    def _share(wrong: float, total: float, squares: float, count: float) -> float:
        variation = squares - total * total / count if count else 0.0
        return 1 - wrong / variation if variation > 1e-12 * squares else math.nan


@dataclass(frozen=True)
class OfOneNumber(NumberMetric):
    """A metric of one of the several numbers that a sample has.

    Args:
        of: What is measured of that number alone.
        place: Its place among the numbers of a sample, from 0.
        called: What its name ends in.
    """

    of: NumberMetric
    place: int
    called: str

    @property
    def higher_is_better(self) -> bool:  # type: ignore[override]
        """As of the metric."""
        return self.of.higher_is_better

    @property
    def name(self) -> str:
        """``mae_days`` and so on."""
        return f"{self.of.name}_{self.called}"

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The metric's sums for this number."""
        return self.of.sums(outputs[:, self.place], targets[:, self.place])

    def value(self, sums: Tensor) -> float:
        """The metric's value."""
        return self.of.value(sums)


def metrics_of_each_number(task: Task, metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics of each number of a target, where a sample has several; none otherwise.

    Args:
        task: What names the numbers.
        metrics: The metrics of all numbers together.
    """
    y, names = task.federation.columns["y"], task.federation.class_names
    if task.kind != "number" or y.dim() != 2 or y.shape[1] < 2:
        return []
    words = [re.sub(r"\W+", "_", str(name)).strip("_") for name in names]
    if len(set(words)) < y.shape[1] or not all(words):
        words = [str(place) for place in range(y.shape[1])]
    measured = [metric for metric in metrics if isinstance(metric, NumberMetric)]
    return [OfOneNumber(metric, place, word) for metric in measured for place, word in enumerate(words)]
