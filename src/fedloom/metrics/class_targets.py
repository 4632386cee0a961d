"""What metrics of classes share: targets that are classes, one per sample or per position of a sequence, or labels."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.objective import SquaredError
from fedloom.core.targets import IGNORED, TargetKind, target_kind
from fedloom.core.task import Task


def is_measured(task: Task) -> bool:
    """Whether a task's targets are measured values."""
    return task.kind == "number" or isinstance(task.objective, SquaredError)


class ClassMetric(Metric):
    """A metric of predicted classes; its values are shares."""

    is_share = True
    kinds: ClassVar[tuple[TargetKind, ...]] = ("classes", "tokens")

    def check(self, task: Task) -> None:
        """Refuse a task whose targets are measured values, or labels where it is not a metric of labels."""
        if is_measured(task):
            raise FedloomError(
                f"metric {self.name} needs classes, but the targets of task {task.name} are measured values: use mae, "
                "rmse or r2."
            )
        if task.kind not in self.kinds:
            raise FedloomError(
                f"metric {self.name} needs one class per sample, but the samples of task {task.name} have several "
                "labels: use macro_f1, micro_f1 or recall."
            )


class CountedClasses(ClassMetric):
    """A metric of how often each class, or label, is predicted and true, predicted, and true."""

    kinds: ClassVar[tuple[TargetKind, ...]] = ("classes", "tokens", "labels")

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """For each class or label: how often it is predicted and true, how often predicted, how often true."""
        if target_kind(targets) == "labels":
            predicted, actual = (outputs > 0).long(), targets.long()
        else:
            outputs, targets = flat_samples(outputs, targets)
            classes = outputs.shape[1]
            predicted, actual = F.one_hot(outputs.argmax(1), classes), F.one_hot(targets, classes)
        return torch.cat([(predicted * actual).sum(0), predicted.sum(0), actual.sum(0)])


def flat_samples(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs (n×classes) and targets (n) of all samples, or of all positions that count."""
    outputs, targets = outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1)
    counts = targets != IGNORED
    return outputs[counts], targets[counts]
