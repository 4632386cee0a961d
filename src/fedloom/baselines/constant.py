"""One answer for every sample: the most frequent class, the median or the mean, the frequent labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.baseline import FittedBaseline
from fedloom.core.objective import Standardised
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task


@dataclass(frozen=True)
class ConstantAnswer:
    """The same outputs for every sample.

    Args:
        row: The outputs.
        words: What is answered.
    """

    row: Tensor
    words: str

    def outputs(self, positions: Tensor) -> Tensor:
        """The same outputs for each position."""
        return self.row.expand(len(positions), *self.row.shape)


@dataclass(frozen=True)
class MajorityClass:
    """The most frequent class (of equally frequent ones the first), with the shares of classes as probabilities."""

    name: str = "majority"
    own_words: str = "always answering each client's most frequent class"

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The shares of classes among the samples that have a label."""
        targets = task.targets(positions)
        known = targets[targets != IGNORED]
        if not len(known) and pooled is not None:
            return pooled
        row = log_shares(known, task.federation.classes)
        return ConstantAnswer(row, f"always answering '{class_title(task, int(row.argmax()))}'")


@dataclass(frozen=True)
class TypicalNumber:
    """One number: the median, which has the least absolute error, or the mean, which has the least squared error.

    Args:
        absolute: Whether the task's score is an absolute error.
    """

    absolute: bool

    @property
    def name(self) -> str:
        """``median`` or ``mean``."""
        return "median" if self.absolute else "mean"

    @property
    def own_words(self) -> str:
        """What it answers at each client."""
        return f"always answering the {self.name} of each client's own training targets"

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The median or mean of the samples' targets, of each number of a target."""
        targets = task.targets(positions).double()
        if not len(targets) and pooled is not None:
            return pooled
        flat = targets.reshape(len(targets), -1)
        middle = flat.quantile(0.5, dim=0) if self.absolute else flat.mean(0)
        shown = ", ".join(f"{value:.4g}" for value in middle.tolist()[:3]) + (", …" if len(middle) > 3 else "")
        objective = task.objective
        row = objective.standardise(middle) if isinstance(objective, Standardised) else middle
        return ConstantAnswer(row.float(), f"always answering {shown} (the {self.name} of the training targets)")


@dataclass(frozen=True)
class FrequentLabels:
    """The labels that more than half of the samples have, or all labels.

    Args:
        every: Whether all labels are answered: by F1, a rare label is better answered always than never.
    """

    every: bool

    @property
    def name(self) -> str:
        """``every label`` or ``frequent labels``."""
        return "every label" if self.every else "frequent labels"

    @property
    def own_words(self) -> str:
        """What it answers at each client."""
        return "answering every label" if self.every else "answering the labels that most of a client's samples have"

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The odds of each label, or one output above 0 for all."""
        targets = task.targets(positions).double()
        if not len(targets) and pooled is not None:
            return pooled
        odds = ((targets.sum(0) + 0.5) / ((1 - targets).sum(0) + 0.5)).log().float()
        if self.every:
            return ConstantAnswer(torch.full_like(odds, 1e-3), "always answering every label")
        names = [class_title(task, place) for place in (odds > 0).nonzero().flatten().tolist()]
        return ConstantAnswer(odds, f"always answering {_list(names)}")


def log_shares(targets: Tensor, classes: int) -> Tensor:
    """The logarithm of each class's share; one more sample of each class keeps it finite and changes no order.

    Args:
        targets: The classes of some samples.
        classes: How many classes there are.
    """
    counts = torch.bincount(targets.flatten(), minlength=classes).double() + 1
    return (counts / counts.sum()).log().float()


def class_title(task: Task, number: int) -> str:
    """The name of a class, or its number where it has none."""
    names = task.federation.class_names
    return str(names[number]) if number < len(names) else str(number)


def _list(names: Sequence[str]) -> str:
    if not names:
        return "no label"
    shown = [f"'{name}'" for name in names[:3]]
    return ", ".join(shown) + (f" and {len(names) - 3} more labels" if len(names) > 3 else "")
