"""A plain SGD step of a chain of layers, whose backward pass changes the weights where they are.

The weight gradient is never stored: the product that computes it is accumulated straight into the weights
(``W -= lr * G^T X`` is one call), which halves the memory traffic of a step. The pass goes through linear layers and
ReLU by hand, and autograd differentiates only the loss and what else is between them: its engine would cost as much as
the products of a small cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.training.layer_graph import Operation
from fedloom.training.stacked import linear, run_operation

Backward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class InPlaceSGD:
    """``w <- (1 - lr * decay) * w - lr * (gradient + pull)`` for the tensors that move."""

    lr: float
    decay: float
    """What a weight adds to its own gradient: weight decay, and the slope of an affine pull."""
    constants: Mapping[str, Tensor]
    """The constant part of an affine pull; empty without one."""
    pull: Callable[[str, Tensor], Tensor] | None
    """Any other pull."""
    moving: frozenset[str]

    def descend(
        self,
        chain: Sequence[Operation],
        stacks: Mapping[str, Tensor],
        x: Tensor,
        keys: Tensor,
        loss: Callable[[Tensor], Tensor],
    ) -> None:
        """Make one step of B clients.

        Args:
            chain: The operations of a training pass, each of which takes what the one before it gives.
            stacks: The tensors of the clients' models, which are changed.
            x: Their inputs, B×n×...
            keys: Their noise keys.
            loss: The loss of their outputs, summed over clients.
        """
        lowest = next((place for place, operation in enumerate(chain) if self._moves(operation.name)), len(chain))
        backward: list[Backward] = []
        for place, operation in enumerate(chain):
            x, back = self._forward(operation, stacks, x, keys, place > lowest)
            backward.append(back)
        (gradient,) = torch.autograd.grad(loss(x.requires_grad_()), [x])
        with torch.no_grad():
            for back in reversed(backward[lowest:]):
                gradient = back(gradient)

    def _forward(
        self, operation: Operation, stacks: Mapping[str, Tensor], x: Tensor, keys: Tensor, moves_below: bool
    ) -> tuple[Tensor, Backward]:
        """The result of an operation, and its backward pass: from the gradient of the result to that of the input.

        ``moves_below`` says whether anything below the operation moves; otherwise the input needs no gradient.
        """
        if isinstance(operation.layer, nn.Linear):
            with torch.no_grad():
                return linear(operation.name, stacks, x), lambda g: self._descend_linear(
                    operation.name, stacks, x, g, moves_below
                )
        if isinstance(operation.layer, nn.ReLU):
            positive = torch.relu(x)
            return positive, lambda g: torch.ops.aten.threshold_backward(g, positive, 0)
        if not moves_below:
            return run_operation(operation, [x], stacks, keys), lambda g: g
        start = x.detach().requires_grad_()
        result = run_operation(operation, [start.clone()], stacks, keys)  # a copy, for functions that work in place

        return result.detach(), lambda g: torch.autograd.grad(result, [start], g)[0]

    def _descend_linear(
        self, name: str, stacks: Mapping[str, Tensor], x: Tensor, gradient: Tensor, moves_below: bool
    ) -> Tensor:
        flat_x, flat_gradient = (t.flatten(1, -2) if t.dim() != 3 else t for t in (x, gradient))
        back = torch.bmm(flat_gradient, stacks[f"{name}.weight"]).view(x.shape) if moves_below else gradient
        self._update(name, stacks, flat_x, flat_gradient)
        return back

    def _moves(self, name: str) -> bool:
        return f"{name}.weight" in self.moving or f"{name}.bias" in self.moving

    def _update(self, name: str, stacks: Mapping[str, Tensor], x: Tensor, gradient: Tensor) -> None:
        """Change the weight and the bias of one linear layer."""
        beta = 1 - self.lr * self.decay
        for leaf in (f"{name}.weight", f"{name}.bias"):
            if leaf not in self.moving:
                continue
            value = stacks[leaf]
            pulled = self.constants.get(leaf) if self.pull is None else self.pull(leaf, value)
            if value.dim() == 3:
                value.baddbmm_(gradient.transpose(1, 2), x, beta=beta, alpha=-self.lr)
            else:
                (value if beta == 1 else value.mul_(beta)).add_(gradient.sum(1), alpha=-self.lr)
            if pulled is not None:
                value.sub_(pulled, alpha=self.lr)
