"""SGD as ``torch.optim.SGD``: ``w <- w - lr * g``, with momentum ``b <- momentum * b + g; w <- w - lr * b``.

Nesterov's momentum steps along ``g + momentum * b``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.training.optimizers.optimizer import Optimizer


class SGD(Optimizer):
    """SGD with momentum, Nesterov's momentum and an L2 penalty."""

    def moments(self) -> int:
        return int(self.work.momentum > 0)

    def descend(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        work, gradients = self.work, self.decayed(values, gradients)
        if work.momentum:
            (buffers, _) = self.state
            torch._foreach_mul_(buffers, work.momentum)
            torch._foreach_add_(buffers, gradients)
            gradients = list(torch._foreach_add(gradients, buffers, alpha=work.momentum)) if work.nesterov else buffers
        self.subtract_(values, gradients)
