"""Metrics of classes, one per sample or per position of a sequence, or of labels: accuracy, F1 and recall."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Accuracy(ClassMetric):
    """The share of samples, or of positions of sequences, whose class is predicted."""

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Right predictions, and all predictions."""
        outputs, targets = flat_samples(outputs, targets)
        right = (outputs.argmax(1) == targets).sum()
        return torch.stack([right, right.new_tensor(len(targets))])


@dataclass(frozen=True)
class MacroF1(CountedClasses):
    """The mean of the F1 scores of all classes or labels: each counts the same, however rare it is.

    F1 of a class is 2 TP / (predicted + actual). A class that is neither predicted nor actual does not count, as in
    scikit-learn's ``f1_score(average="macro")``. Over clients, the counts of each class are added, and F1 is computed
    from the totals; it is not the mean of clients' F1.
    """

    def value(self, sums: Tensor) -> float:
        """The mean of the classes' F1 scores; NaN without samples."""
        both, predicted, actual = sums.view(3, -1)
        there = predicted + actual > 0
        return float((2 * both[there] / (predicted + actual)[there]).mean()) if bool(there.any()) else math.nan


@dataclass(frozen=True)
class MicroF1(CountedClasses):
    """2 TP / (predicted + actual), counted over all labels: frequent labels count more.

    Where every sample, or token, has one class, this is accuracy.
    """

    def value(self, sums: Tensor) -> float:
        """F1 of the counts over all labels; NaN where no label is predicted or true."""
        both, predicted, actual = sums.view(3, -1).sum(1).tolist()
        return 2 * both / (predicted + actual) if predicted + actual else math.nan


@dataclass(frozen=True)
class Recall(CountedClasses):
    """The share of the samples of a class, or with a label, that are predicted to have it.

    Args:
        label: The class: its name, or its number. Without it, the mean over all classes that some sample has.
    """

    label: str | int | None = None

    @property
    def name(self) -> str:
        """``recall_NAME`` of a class, or ``recall``."""
        return "recall" if self.label is None else "recall_" + re.sub(r"[^\w.-]", "_", str(self.label))

    def value(self, sums: Tensor) -> float:
        """The recall of the class, or the mean over classes; NaN where no sample has any."""
        found, _, actual = sums.view(3, -1)
        there = actual > 0
        return float((found[there] / actual[there]).mean()) if bool(there.any()) else math.nan

    def fit(self, task: Task) -> Recall:
        """The recall of the class that has the name in a task."""
        if self.label is None:
            return self
        federation = task.federation
        names = [str(name) for name in federation.class_names] or [str(n) for n in range(federation.classes)]
        if str(self.label) not in names:
            if isinstance(self.label, int) and 0 <= self.label < federation.classes:
                return RecallOfClass(self.label, self.label)
            shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
            raise FedloomError(f"metric recall: there is no class '{self.label}': the classes are {shown}.")
        return RecallOfClass(self.label, names.index(str(self.label)))


@dataclass(frozen=True)
class RecallOfClass(Recall):
    """The recall of the class with a number.

    Args:
        label: The name of the class.
    """

    place: int = 0

    def value(self, sums: Tensor) -> float:
        """The recall of the class; NaN where no sample has it."""
        found, _, actual = sums.view(3, -1)[:, self.place].tolist()
        return found / actual if actual else math.nan

    def fit(self, task: Task) -> Recall:
        """Itself."""
        return self
