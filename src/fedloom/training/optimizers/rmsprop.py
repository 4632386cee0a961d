"""RMSprop as ``torch.optim.RMSprop``: ``v <- s * v + (1 - s) * g^2; w <- w - lr * g / (sqrt(v) + epsilon)``.

``centered`` takes the variance, ``v - m^2`` with ``m <- s * m + (1 - s) * g``, in the place of v; with momentum the
step is along ``b <- momentum * b + g / (...)``. The ``smoothing`` s is torch's ``alpha``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.training.optimizers.optimizer import Optimizer


class RMSprop(Optimizer):
    """RMSprop, also centered and with momentum."""

    def moments(self) -> int:
        return 1 + int(self.work.centered) + int(self.work.momentum > 0)

    def descend(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        work, gradients, (squares, *others, _) = self.work, self.decayed(values, gradients), self.state
        torch._foreach_mul_(squares, work.smoothing)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - work.smoothing)
        if work.centered:
            means = others.pop(0)
            torch._foreach_lerp_(means, gradients, 1 - work.smoothing)
            roots = torch._foreach_addcmul(squares, means, means, -1)
            torch._foreach_sqrt_(roots)
        else:
            roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, self.epsilon)
        directions = list(torch._foreach_div(gradients, roots))
        if others:
            (buffers,) = others
            torch._foreach_mul_(buffers, work.momentum)
            torch._foreach_add_(buffers, directions)
            directions = buffers
        self.subtract_(values, directions)
