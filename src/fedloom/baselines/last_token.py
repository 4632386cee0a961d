"""What most often follows the last token of a window: the baseline of predicting the next character."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.baselines.token_table import share_table
from fedloom.core.baseline import FittedBaseline
from fedloom.core.task import Task


@dataclass(frozen=True)
class LastTokenAnswer:
    """The shares of classes after each token.

    Args:
        task: The task, whose inputs are windows of tokens.
        table: Tokens × classes, the logarithms of shares.
        words: What is answered.
    """

    task: Task
    table: Tensor
    words: str

    def outputs(self, positions: Tensor) -> Tensor:
        """Samples × classes."""
        return self.table[_last_tokens(self.task, positions)]


@dataclass(frozen=True)
class LastToken:
    """For each last token the class that follows it most often; a client's own counts back off to those of all.

    Args:
        unit: What a token is called.
    """

    unit: str = "character"

    @property
    def name(self) -> str:
        """``last character``."""
        return f"last {self.unit}"

    @property
    def own_words(self) -> str:
        """What it answers at each client."""
        return f"answering what most often follows the last {self.unit} at each client"

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """The shares of classes after each token among the samples."""
        tokens, targets = _last_tokens(task, positions), task.targets(positions)
        prior = pooled.table.double().exp() if isinstance(pooled, LastTokenAnswer) else None
        vocabulary = int(task.federation.columns["x"].max()) + 1
        table = share_table(tokens, targets, vocabulary, task.federation.classes, prior)
        return LastTokenAnswer(task, table, f"answering what most often follows the last {self.unit}")


def _last_tokens(task: Task, positions: Tensor) -> Tensor:
    return task.federation.columns["x"].index_select(0, positions)[:, -1].to(torch.int64)
