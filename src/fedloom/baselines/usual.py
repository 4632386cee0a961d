"""The baselines of a task that brings none of its own, by what its targets are and what they are scored by."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.baselines.constant import ConstantAnswer, FrequentLabels, MajorityClass, TypicalNumber, log_shares
from fedloom.baselines.token_table import MostFrequentTag, has_tokens
from fedloom.core.baseline import Baseline, FittedBaseline
from fedloom.core.objective import SquaredError
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task

ABSOLUTE = ("mae", "absolute_error", "huber")
"""Scores of numbers that the median is best for."""


@dataclass(frozen=True)
class MajorityTag:
    """The most frequent tag at every position, where inputs are not tokens."""

    name: str = "most frequent tag"
    own_words: str = "always answering each client's most frequent tag"

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The shares of tags among the positions that count."""
        targets = task.targets(positions)
        known = targets[targets != IGNORED]
        if not len(known) and pooled is not None:
            return pooled
        row = log_shares(known, task.federation.classes)
        return ConstantAnswer(row.expand(targets.shape[1], len(row)), "always answering the most frequent tag")


def baselines_of(task: Task) -> tuple[Baseline, ...]:
    """The baselines of a task: its own, or the usual ones of its targets."""
    if task.baselines:
        return tuple(task.baselines)
    if task.kind == "number" or isinstance(task.objective, SquaredError):  # numbers may be whole ones
        return (TypicalNumber(absolute=task.score_name in ABSOLUTE),)
    if task.kind == "classes":
        return (MajorityClass(),)
    if task.kind == "labels":
        return (FrequentLabels(every=task.score_name.endswith("f1")),)
    return (MostFrequentTag() if has_tokens(task) else MajorityTag(),)
