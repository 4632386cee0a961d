"""The backward pass of a chain of layers, through linear layers and ReLU by hand.

Autograd differentiates only the loss and what else is between them: its engine would cost as much as the products of a
small cohort. What becomes of a weight's gradient, the product of two matrices, is up to the pass: plain SGD never
stores it (``in_place_sgd.py``), and other optimisers get it in memory that is used again in every step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedloom.training.layer_graph import Operation
from fedloom.training.stacked import linear, run_operation

Backward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ChainPass(ABC):
    """A backward pass that does something with the gradient of each tensor that moves."""

    moving: frozenset[str]

    @abstractmethod
    def use_gradient(self, name: str, value: Tensor, x: Tensor, gradient: Tensor) -> None:
        """Do what is to be done with the gradient of a tensor.

        Args:
            name: The weight or the bias of a linear layer.
            value: Its values, clients first.
            x: The inputs of the layer, B×n×i.
            gradient: The gradient of its outputs, B×n×o.
        """

    def run(
        self,
        chain: Sequence[Operation],
        stacks: Mapping[str, Tensor],
        x: Tensor,
        keys: Tensor,
        loss: Callable[[Tensor], Tensor],
    ) -> None:
        """Make the pass of B clients.

        Args:
            chain: The operations of a training pass, each of which takes what the one before it gives.
            stacks: The tensors of the clients' models.
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
                return linear(operation.name, stacks, x), lambda g: self._backward_linear(
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

    def _backward_linear(
        self, name: str, stacks: Mapping[str, Tensor], x: Tensor, gradient: Tensor, moves_below: bool
    ) -> Tensor:
        flat_x, flat_gradient = (t.flatten(1, -2) if t.dim() != 3 else t for t in (x, gradient))
        back = torch.bmm(flat_gradient, stacks[f"{name}.weight"]).view(x.shape) if moves_below else gradient
        for leaf in (f"{name}.weight", f"{name}.bias"):
            if leaf in self.moving:
                self.use_gradient(leaf, stacks[leaf], flat_x, flat_gradient)
        return back

    def _moves(self, name: str) -> bool:
        return f"{name}.weight" in self.moving or f"{name}.bias" in self.moving


@dataclass(frozen=True)
class ChainGradients(ChainPass):
    """A pass that writes gradients to memory that is used again in every step."""

    memory: Mapping[str, Tensor]
    """A stack of the whole cohort for each tensor that moves."""

    def use_gradient(self, name: str, value: Tensor, x: Tensor, gradient: Tensor) -> None:
        out = self.memory[name][: len(value)]
        if value.dim() == 3:
            torch.bmm(gradient.transpose(1, 2), x, out=out)
        else:
            torch.sum(gradient, 1, out=out)

    def of_first(self, clients: int, names: Sequence[str]) -> list[Tensor]:
        """The gradients of the last pass, which had so many clients."""
        return [self.memory[name][:clients] for name in names]
