"""Accuracy on the classes of one task of a stream."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.metrics.classification import ClassMetric, flat_samples


@dataclass(frozen=True)
class TaskAccuracy(ClassMetric):
    """The share of samples of one task of a stream whose class is predicted, among all classes seen so far.

    Args:
        number: The number of the task, counted from 1.
    """

    number: int
    classes: tuple[int, ...]

    @property
    def name(self) -> str:
        """``task_1_accuracy`` and so on."""
        return f"task_{self.number}_accuracy"

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Right predictions of samples of the task, and how many of them there are."""
        outputs, targets = flat_samples(outputs, targets)
        mine = torch.isin(targets, torch.tensor(self.classes))
        return torch.stack([((outputs.argmax(1) == targets) & mine).sum(), mine.sum()])
