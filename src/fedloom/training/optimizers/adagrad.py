"""Adagrad as ``torch.optim.Adagrad``: ``v <- v + g^2; w <- w - lr * g / (sqrt(v) + epsilon)``; v starts at zero.

A client's sum of squares begins anew in each round, as all state of local optimisers does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.training.optimizers.optimizer import Optimizer


class Adagrad(Optimizer):
    """Adagrad with an L2 penalty."""

    def moments(self) -> int:
        return 1

    def descend(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        gradients, (sums, _) = self.decayed(values, gradients), self.state
        torch._foreach_addcmul_(sums, gradients, gradients, 1)
        roots = torch._foreach_sqrt(sums)
        torch._foreach_add_(roots, self.epsilon)
        self.subtract_(values, list(torch._foreach_div(gradients, roots)))
