"""The metric: a number about a model's outputs that is exact over batches, clients and machines.

A metric has two halves. ``sums`` gives a vector for a batch, and these vectors add up: over the batches of a client,
over clients, over the sites of a deployment. ``value`` makes a number of the total. So F1 or AUC over all clients is
what it would be over their samples in one place, although no sample leaves its client.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.settings import check_settings

if TYPE_CHECKING:
    from fedloom.core.task import Task


@dataclass(frozen=True)
class Metric:
    """A metric of a task. Its settings are its fields; the first metric of a task is its score."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    higher_is_better: ClassVar[bool] = True
    is_share: ClassVar[bool] = False
    """Whether its values are shares between 0 and 1, which tables and figures show in per cent."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """The name in records and tables: the class's name in lower case, with underscores between its words."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """What adds up: a vector whose length is the same for all batches of a task.

        Args:
            outputs: The outputs of one model for a batch of samples.
            targets: The targets of these samples.
        """
        raise TypeError(f"{type(self).__name__} has no sums")

    def value(self, sums: Tensor) -> float:
        """The metric of all samples whose vectors were added; NaN where it is undefined.

        By default, the first sum over the second.

        Args:
            sums: The sum of these vectors, in double precision.
        """
        if len(sums) != 2:
            raise FedloomError(
                f"metric {self.name}: write value(self, sums): without it there must be two sums, got {len(sums)}."
            )
        total, count = sums.tolist()
        return total / count if count else math.nan

    def fit(self, task: Task) -> Metric:
        """This metric for a task, for instance with the number of a class that it names."""
        return self

    def check(self, task: Task) -> None:
        """Raise a ``FedloomError`` that says why a task cannot have this metric."""


def divisor(counts: Tensor) -> Tensor:
    """What sums are divided by to be means: the counts, and 1 where nothing counts, such as in a batch without labels.

    Args:
        counts: Sums of what losses count.
    """
    return torch.where(counts > 0, counts, 1)


@dataclass
class Scores:
    """Sums over each client's samples: of losses, of scores, and of what they count."""

    loss: Tensor
    score: Tensor
    counts: Tensor

    @property
    def mean_loss(self) -> Tensor:
        """Each client's mean loss (NaN for a client without samples)."""
        return self.loss / self.counts

    @property
    def mean_score(self) -> Tensor:
        """Each client's mean score, such as its accuracy (NaN for a client without samples)."""
        return self.score / self.counts
