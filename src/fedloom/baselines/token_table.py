"""The most frequent tag of each token: the classical baseline of tagging, and of predicting the next character."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.baseline import FittedBaseline
from fedloom.core.targets import IGNORED
from fedloom.core.task import Task

PRIOR = 1e-3
"""How many samples the shares of all tokens together count as, beside a token's own: too few to change its order."""


@dataclass(frozen=True)
class TokenAnswer:
    """The shares of tags of each token.

    Args:
        task: The task, whose inputs are the tokens.
        table: Tokens × tags, the logarithms of shares; the last row is for tokens that no training sample has.
        words: What is answered.
    """

    task: Task
    table: Tensor
    words: str

    def outputs(self, positions: Tensor) -> Tensor:
        """Samples × positions × tags."""
        tokens = self.task.federation.columns["x"].index_select(0, positions).long()
        return self.table[tokens.clamp(max=len(self.table) - 1)]


@dataclass(frozen=True)
class MostFrequentTag:
    """For each token the tag that it has most often; for a new token the most frequent tag of all."""

    name: str = "most frequent tag"
    own_words: str = "answering the most frequent tag of each token at each client"

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The shares of tags of each token among the samples."""
        columns = task.federation.columns
        tokens, tags = columns["x"].index_select(0, positions).long().flatten(), task.targets(positions).flatten()
        counts = tags != IGNORED
        tokens, tags = tokens[counts], tags[counts]
        if not len(tags) and pooled is not None:
            return pooled
        classes, words = task.federation.classes, int(columns["x"].max()) + 1
        prior = (torch.bincount(tags, minlength=classes).double() + 1) / (len(tags) + classes)
        table = torch.bincount(tokens * classes + tags, minlength=words * classes).view(words, classes).double()
        table = torch.cat([table, torch.zeros(1, classes, dtype=torch.float64)]) + PRIOR * prior
        table = (table / table.sum(1, keepdim=True)).log().float()
        return TokenAnswer(task, table, "always answering the most frequent tag of each token")


def has_tokens(task: Task) -> bool:
    """Whether a task's inputs are whole numbers that stand beside its targets."""
    x, y = task.federation.columns.get("x"), task.federation.columns["y"]
    return x is not None and not x.is_floating_point() and x.shape == y.shape and bool((x >= 0).all())
