"""Losses and scores of clients' models, as sums: exact over batches, clients and machines."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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
