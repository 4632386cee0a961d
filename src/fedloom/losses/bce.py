"""Binary cross-entropy of several labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.class_weights import ClassWeights, fit_class_weights
from fedloom.core.objective import Loss
from fedloom.core.task import FederationView


@dataclass(frozen=True)
class BCE(Loss):
    """Binary cross-entropy, mean over labels; its score is the share of samples whose labels are all right.

    Args:
        class_weights: What it counts in the loss that a sample has a label, where 1 is what it counts that it has not:
            a number per label, or numbers by the names of labels, 1 for those that are not named; ``"balanced"`` makes
            them of the training labels of all clients, so that with and without a label count the same in sum.
    """

    kinds = ("labels",)
    score = "exact_match"

    class_weights: ClassWeights = ()

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each sample, mean over its labels."""
        weights = torch.tensor(tuple(self.class_weights), dtype=outputs.dtype) if self.class_weights else None
        each = F.binary_cross_entropy_with_logits(
            outputs, targets.to(outputs.dtype), pos_weight=weights, reduction="none"
        )
        return each.mean(1), torch.ones(len(targets))

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """1 for a sample whose labels are all predicted, and no other."""
        return ((outputs > 0) == targets.bool()).all(1).float(), torch.ones(len(targets))

    def fit(self, federation: FederationView) -> BCE:
        """This loss with a weight for each label of some data."""
        if self.class_weights == ():
            return self
        return replace(self, class_weights=fit_class_weights(self.class_weights, federation))

    @property
    def fits_to_labels(self) -> bool:
        """Whether the weights are to be those of the training labels."""
        return self.class_weights == "balanced"
