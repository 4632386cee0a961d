"""Recall: the share of a class's samples that are found."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.metrics.class_targets import CountedClasses


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
            shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
            raise FedloomError(f"metric recall: there is no class '{self.label}': the classes are {shown}.")
        return RecallOfClass(self.label, names.index(str(self.label)))


@dataclass(frozen=True)
class RecallOfClass(Recall):
    """The recall of the class with a number.

    Args:
        label: The name of the class.
        place: Its number.
    """

    place: int = 0

    def value(self, sums: Tensor) -> float:
        """The recall of the class; NaN where no sample has it."""
        found, _, actual = sums.view(3, -1)[:, self.place].tolist()
        return found / actual if actual else math.nan

    def fit(self, task: Task) -> Recall:
        """Itself."""
        return self
