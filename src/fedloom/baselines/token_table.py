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
        known: The tokens of the other rows, in ascending order.
    """

    task: Task
    table: Tensor
    words: str
    known: Tensor

    def outputs(self, positions: Tensor) -> Tensor:
        """Samples × positions × tags."""
        tokens = self.task.federation.columns["x"].index_select(0, positions).long()
        if not len(self.known):
            return self.table[torch.zeros_like(tokens)]
        place = torch.searchsorted(self.known, tokens).clamp(max=len(self.known) - 1)
        return self.table[torch.where(self.known[place] == tokens, place, len(self.known))]


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
        # A client has few of the words: a table of all of them, for each client, would be gigabytes.
        known, rows = tokens.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        table = share_table(rows, tags, len(known) + 1, task.federation.classes)
        return TokenAnswer(task, table, "always answering the most frequent tag of each token", known)


def share_table(tokens: Tensor, classes_of: Tensor, words: int, classes: int, prior: Tensor | None = None) -> Tensor:
    """The logarithm of each class's share among the samples of each token, tokens × classes.

    Args:
        tokens: The token of each sample.
        classes_of: The class of each sample.
        words: How many tokens there are.
        classes: How many classes there are.
        prior: The shares that count where a token has few samples, by default those of all samples together.
    """
    if prior is None:
        prior = (torch.bincount(classes_of, minlength=classes).double() + 1) / (len(classes_of) + classes)
    counts = torch.bincount(tokens * classes + classes_of, minlength=words * classes).view(words, classes).double()
    table = counts + PRIOR * prior
    return (table / table.sum(1, keepdim=True)).log().float()


def has_tokens(task: Task) -> bool:
    """Whether a task's inputs are whole numbers that stand beside its targets."""
    x, y = task.federation.columns.get("x"), task.federation.columns["y"]
    return x is not None and not x.is_floating_point() and x.shape == y.shape and bool((x >= 0).all())
