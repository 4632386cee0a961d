"""A user's own function as a loss: ``my_file.py:my_loss``, or any function in Python.

It gets a batch of outputs and targets and returns one loss per sample (of sequences, one per token is fine too). Many
clients' batches are one batch for it, so a loss must not mix samples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.objective import Loss
from fedloom.core.targets import IGNORED, label_mask

LossFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class OwnLoss(Loss):
    """A function of outputs and targets as a loss; its score is that of the usual loss of such targets.

    Args:
        function: Returns one loss per sample.
        usual: The loss whose score is reported.
    """

    function: LossFunction
    usual: Loss

    @property
    def score(self) -> str:  # type: ignore[override]
        """The name of the score."""
        return self.usual.score

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """What the function returns, summed over the tokens that count."""
        has_class = targets.dim() == 1 and not targets.is_floating_point()
        values = self.function(outputs, targets.clamp(min=0) if has_class else targets)
        found = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        if targets.dim() == 2 and found == tuple(targets.shape) and targets.dtype != torch.uint8:
            counts = targets != IGNORED
            return torch.where(counts, values, 0.0).sum(1), counts.sum(1).float()
        if found != (len(targets),):
            raise FedloomError(
                f"loss {function_name(self.function)} returned {_form(found)} for {len(targets)} samples: return one "
                "loss per sample (reduction='none' in torch)."
            )
        if not has_class:
            return values, torch.ones(len(targets))
        counts = label_mask(targets)
        return torch.where(counts > 0, values, 0.0), counts

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each sample."""
        return self.usual.scores(outputs, targets)


def _form(found: tuple[int, ...] | str) -> str:
    return f"a {found}" if isinstance(found, str) else f"numbers of shape {found}" if found else "one number"


def function_name(function: LossFunction) -> str:
    """What a function is called."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))
