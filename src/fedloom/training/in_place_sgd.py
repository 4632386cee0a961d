"""A plain SGD step of a chain of layers, whose backward pass changes the weights where they are.

The weight gradient is never stored: the product that computes it is accumulated straight into the weights
(``W -= lr * G^T X`` is one call), which halves the memory traffic of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from fedloom.training.chain_pass import ChainPass


@dataclass(frozen=True)
class InPlaceSGD(ChainPass):
    """``w <- (1 - lr * decay) * w - lr * (gradient + pull)`` for the tensors that move."""

    lr: float
    decay: float
    """What a weight adds to its own gradient: weight decay, and the slope of an affine pull."""
    constants: Mapping[str, Tensor]
    """The constant part of an affine pull; empty without one."""
    pull: Callable[[str, Tensor], Tensor] | None
    """Any other pull."""

    def use_gradient(self, name: str, value: Tensor, x: Tensor, gradient: Tensor) -> None:
        beta = 1 - self.lr * self.decay
        pulled = self.constants.get(name) if self.pull is None else self.pull(name, value)
        if value.dim() == 3:
            value.baddbmm_(gradient.transpose(1, 2), x, beta=beta, alpha=-self.lr)
        else:
            (value if beta == 1 else value.mul_(beta)).add_(gradient.sum(1), alpha=-self.lr)
        if pulled is not None:
            value.sub_(pulled, alpha=self.lr)
