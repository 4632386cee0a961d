"""A plain SGD step of a chain of layers, whose backward pass changes the weights where they are.

The weight gradient is never stored: the product that computes it is accumulated straight into the weights
(``W -= lr * G^T X`` is one call), which halves the memory traffic of a step. The pass goes from linear layer to linear
layer by hand, and autograd differentiates only what is between them: its engine would cost as much as the products of a
small cohort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.training.layer_graph import Step
from fedloom.training.stacked import linear, run_step


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
        chain: Sequence[Step],
        stacks: Mapping[str, Tensor],
        x: Tensor,
        keys: Tensor,
        loss: Callable[[Tensor], Tensor],
    ) -> None:
        """Make one step of B clients.

        Args:
            chain: The steps of a training pass, each of which takes what the one before it gives.
            stacks: The tensors of the clients' models, which are changed.
            x: Their inputs, B×n×...
            keys: Their noise keys.
            loss: The loss of their outputs, summed over clients.
        """
        layers: list[tuple[str, Tensor, Tensor]] = []  # name, input and output of each linear layer
        for step in chain:
            if isinstance(step.layer, nn.Linear):
                with torch.no_grad():
                    out = linear(step.name, stacks, x)
                layers.append((step.name, x, out))
                x = out.requires_grad_()
            else:
                x = run_step(step, [x], stacks, keys)
        lowest = next(place for place, (name, _, _) in enumerate(layers) if self._moves(name))
        (gradient,) = torch.autograd.grad(loss(x), [layers[-1][2]])
        for place in range(len(layers) - 1, lowest - 1, -1):
            name, x, _ = layers[place]
            flat_x, flat_gradient = (t.detach().flatten(1, -2) if t.dim() != 3 else t.detach() for t in (x, gradient))
            back = None
            if place > lowest:
                back = torch.bmm(flat_gradient, stacks[f"{name}.weight"].detach()).view(x.shape)
            self._update(name, stacks, flat_x, flat_gradient)
            if back is not None:
                (gradient,) = torch.autograd.grad(x, [layers[place - 1][2]], back)

    def _moves(self, name: str) -> bool:
        return f"{name}.weight" in self.moving or f"{name}.bias" in self.moving

    def _update(self, name: str, stacks: Mapping[str, Tensor], x: Tensor, gradient: Tensor) -> None:
        """Change the weight and the bias of one linear layer."""
        beta = 1 - self.lr * self.decay
        for leaf in (f"{name}.weight", f"{name}.bias"):
            if leaf not in self.moving:
                continue
            value = stacks[leaf].detach()
            pulled = self.constants.get(leaf) if self.pull is None else self.pull(leaf, value)
            if value.dim() == 3:
                value.baddbmm_(gradient.transpose(1, 2), x, beta=beta, alpha=-self.lr)
            else:
                (value if beta == 1 else value.mul_(beta)).add_(gradient.sum(1), alpha=-self.lr)
            if pulled is not None:
                value.sub_(pulled, alpha=self.lr)
