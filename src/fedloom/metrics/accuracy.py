"""Accuracy: the share of right predictions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.metrics.class_targets import ClassMetric, flat_samples


@dataclass(frozen=True)
class Accuracy(ClassMetric):
    """The share of samples, or of positions of sequences, whose class is predicted."""

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Right predictions, and all predictions."""
        outputs, targets = flat_samples(outputs, targets)
        right = (outputs.argmax(1) == targets).sum()
        return torch.stack([right, right.new_tensor(len(targets))])
