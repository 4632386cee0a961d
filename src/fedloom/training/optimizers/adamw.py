"""AdamW as ``torch.optim.AdamW``: Adam whose weight decay is no part of the gradient, ``w <- w - lr * decay * w``."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.training.optimizers.adam import Adam


class AdamW(Adam):
    """AdamW; clients that have made equally many steps take torch's fused step together."""

    def descend(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        if not torch.compiler.is_compiling() and self._is_alike(count):
            self.descend_fused(torch._fused_adamw_, values, gradients)
            return
        if self.work.decay:
            for value in values:
                value.mul_(1 - self.rate_of(value) * self.work.decay)
        self.descend_by_formula(values, gradients, count)

    def _is_alike(self, count: Tensor) -> bool:
        """Whether all clients have made equally many steps, and have one learning rate."""
        alone = len(count) == 1
        return alone or (not isinstance(self.lr, Tensor) and bool((count == count[0]).all()))
