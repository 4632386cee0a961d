"""The counts behind a confusion matrix, as a metric: they add up over batches and clients."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.metric import Metric


class ConfusionCounts(Metric):
    """How many samples of each class were taken for which class: a row per true class, one after another.

    Args:
        classes: The number of classes.
    """

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The counts of a batch."""
        pairs = targets * self.classes + outputs[:, : self.classes].argmax(-1)
        return torch.bincount(pairs, minlength=self.classes**2)
