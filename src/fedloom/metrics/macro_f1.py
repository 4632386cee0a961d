"""Macro F1: the mean over classes of the harmonic mean of precision and recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.metrics.class_targets import ClassMetric, flat_samples


@dataclass(frozen=True)
class MacroF1(ClassMetric):
    """The mean of the F1 scores of all classes: each class counts the same, however rare it is.

    F1 of a class is 2 TP / (predicted + actual). A class that is neither predicted nor actual does not count, as in
    scikit-learn's ``f1_score(average="macro")``. Over clients, the counts of each class are added, and F1 is computed
    from the totals; it is not the mean of clients' F1.
    """

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """For each class: how often it is predicted and true, how often predicted, how often true."""
        outputs, targets = flat_samples(outputs, targets)
        classes = outputs.shape[1]
        predicted, actual = F.one_hot(outputs.argmax(1), classes), F.one_hot(targets, classes)
        return torch.cat([(predicted * actual).sum(0), predicted.sum(0), actual.sum(0)])

    def value(self, sums: Tensor) -> float:
        """The mean of the classes' F1 scores; NaN without samples."""
        both, predicted, actual = sums.view(3, -1)
        there = predicted + actual > 0
        return float((2 * both[there] / (predicted + actual)[there]).mean()) if bool(there.any()) else math.nan
