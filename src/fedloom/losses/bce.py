"""Binary cross-entropy of several labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.objective import Loss


@dataclass(frozen=True)
class BCE(Loss):
    """Binary cross-entropy, mean over labels; its score is the share of samples whose labels are all right."""

    kinds = ("labels",)
    score = "exact_match"

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each sample, mean over its labels."""
        each = F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction="none")
        return each.mean(1), torch.ones(len(targets))

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """1 for a sample whose labels are all predicted, and no other."""
        return ((outputs > 0) == targets.bool()).all(1).float(), torch.ones(len(targets))
