"""Micro F1: the harmonic mean of precision and recall over all labels together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from fedloom.metrics.class_targets import CountedClasses


@dataclass(frozen=True)
class MicroF1(CountedClasses):
    """2 TP / (predicted + actual), counted over all labels: frequent labels count more.

    Where every sample, or token, has one class, this is accuracy.
    """

    def value(self, sums: Tensor) -> float:
        """F1 of the counts over all labels; NaN where no label is predicted or true."""
        both, predicted, actual = sums.view(3, -1).sum(1).tolist()
        return 2 * both / (predicted + actual) if predicted + actual else math.nan
