"""Macro F1: the mean over classes of the harmonic mean of precision and recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from fedloom.metrics.class_targets import CountedClasses


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
