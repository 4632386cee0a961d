"""Focal loss: samples that are right already count less.

``(1 - p)^gamma * cross-entropy``, p being the probability of the true class; with gamma = 0 it is cross-entropy.

Lin et al., Focal Loss for Dense Object Detection, ICCV 2017, https://arxiv.org/abs/1708.02002.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy
from fedloom.core.targets import IGNORED, label_mask


@dataclass(frozen=True)
class Focal(CrossEntropy):
    """Cross-entropy in which samples that are right already count less; for rare classes.

    Args:
        smoothing: The share of a target that is spread evenly over all classes.
        class_weights: What a sample of each class counts, as for ``cross_entropy``.
        gamma: How much less: 0 is cross-entropy.
    """

    gamma: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.gamma == 0 or self.gamma >= 1):  # between 0 and 1 the gradient has no bound at p = 1
            raise FedloomError(f"loss focal: gamma={self.gamma}: it must be 0, or at least 1.")

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The focal loss of each sample, summed over the positions that count."""
        if self.gamma == 0:
            return super().losses(outputs, targets)
        flat, classes = targets.flatten(), outputs.reshape(-1, outputs.shape[-1])
        surprise = F.cross_entropy(classes, flat, reduction="none", ignore_index=IGNORED)
        each = (-surprise).expm1().neg().clamp(min=0).pow(self.gamma) * self.of_classes(classes, flat)
        if targets.dim() == 1:
            return each, label_mask(targets)
        return each.view(targets.shape).sum(1), (targets != IGNORED).sum(1).float()
