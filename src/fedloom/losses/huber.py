"""Huber loss: squared near the target and linear far from it, so that outliers pull less."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.settings import Positive
from fedloom.losses.mse import MSE, distances


@dataclass(frozen=True)
class Huber(MSE):
    """Half the squared error of a number up to ``delta``, linear beyond; outliers pull less.

    Args:
        delta: Where it becomes linear, in standard deviations of the training targets.
    """

    delta: Positive = 1.0

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The Huber loss of each sample."""
        away = distances(outputs, targets)
        each = F.huber_loss(away, torch.zeros_like(away), reduction="none", delta=self.delta)
        return each.mean(1), torch.ones(len(targets))
