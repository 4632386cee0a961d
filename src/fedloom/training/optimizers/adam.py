"""Adam as ``torch.optim.Adam``, whose L2 penalty is a part of the gradient.

``m <- beta1 * m + (1 - beta1) * g; v <- beta2 * v + (1 - beta2) * g^2``, and with the bias of both corrected after t
steps ``w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedloom.training.optimizers.optimizer import Optimizer


class Adam(Optimizer):
    """Adam; a client alone takes torch's fused step."""

    def moments(self) -> int:
        return 2

    def descend(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        if len(count) == 1 and not torch.compiler.is_compiling():
            self.descend_fused(torch._fused_adam_, values, gradients)
        else:
            self.descend_by_formula(values, self.decayed(values, gradients), count)

    def descend_by_formula(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        """The step as it is written above."""
        work, (first, second, _) = self.work, self.state
        torch._foreach_lerp_(first, gradients, 1 - work.beta1)
        torch._foreach_mul_(second, work.beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - work.beta2)
        for value, m, v in zip(values, first, second, strict=True):
            lead = count.view(-1, *[1] * (value.dim() - 1))
            root = (v / (1 - work.beta2**lead)).sqrt_().add_(self.epsilon)
            value.sub_((m / root).mul_(self.rate_of(value) / (1 - work.beta1**lead)))

    def descend_fused(self, kernel: Callable[..., None], values: list[Tensor], gradients: list[Tensor]) -> None:
        """Torch's own step, a single pass over each tensor, weight decay included; all clients have made equally many.

        Args:
            kernel: ``torch._fused_adam_`` or one that takes the same.
        """
        work, (first, second, (count,)) = self.work, self.state
        kernel(
            values,
            [_in_layout_of(g, v) for g, v in zip(gradients, values, strict=True)],
            first,
            second,
            [],
            [count[0].clone() for _ in values],
            lr=float(self.lr),
            beta1=work.beta1,
            beta2=work.beta2,
            weight_decay=work.decay,
            eps=self.epsilon,
            amsgrad=False,
            maximize=False,
        )


def _in_layout_of(gradient: Tensor, value: Tensor) -> Tensor:
    """The gradient with its value's memory layout: the fused step reads both from end to end."""
    return gradient if gradient.stride() == value.stride() else torch.empty_like(value).copy_(gradient)
