"""What every local optimiser does: it holds the state of a cohort, clips and makes steps.

Values and state are stacks: lists of tensors whose first axis is the client. Each client is on its own, as if it had a
``torch.optim`` optimiser of its own. A client that takes no part in a step does not advance: its state only changes
together with its values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import torch
from torch import Tensor

from fedloom.core.local_work import LocalWork
from fedloom.training.gradients import clip_

Rate = float | Tensor
"""A learning rate: one for all clients, or a tensor with one for each."""


class Optimizer(ABC):
    """The state of a cohort's optimiser, and its step.

    Args:
        work: The local work, whose settings of the optimiser are complete.
        lr: The learning rate.
        values: What the optimiser changes.
        state: Its state, if it is not new.
    """

    def __init__(
        self, work: LocalWork, lr: Rate, values: list[Tensor], state: list[list[Tensor]] | None = None
    ) -> None:
        self.work, self.lr, self.values, self.epsilon = work, lr, values, work.epsilon or 0.0
        if state is None:
            state = [[torch.zeros_like(v, requires_grad=False) for v in values] for _ in range(self.moments())]
            state.append([torch.zeros(len(values[0]))])  # steps done, per client
        self.state = state

    @abstractmethod
    def moments(self) -> int:
        """How many numbers the state has for each weight."""

    @abstractmethod
    def descend(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        """Change the values and the state.

        Args:
            gradients: The gradients, which must not be changed.
            count: The steps of each client, this one included.
        """

    def part(self, places: int | Tensor) -> Self:
        """The same optimiser for some clients: views for a prefix, copies for a list of places."""
        cut = slice(places) if isinstance(places, int) else places
        values = [v.detach()[cut] for v in self.values]
        return type(self)(self.work, self.lr, values, [[s[cut] for s in group] for group in self.state])

    def put_back(self, part: Optimizer, places: Tensor) -> None:
        """Write the copies of ``part`` back to their places."""
        with torch.no_grad():
            for mine, theirs in zip([self.values, *self.state], [part.values, *part.state], strict=True):
                for whole, piece in zip(mine, theirs, strict=True):
                    whole.detach()[places] = piece

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """One step down the gradients."""
        work, values = self.work, [v.detach() for v in self.values]
        count = self.state[-1][0]
        count += 1
        if work.clip is not None:
            gradients = [g.clone() for g in gradients]  # autograd may give two parameters one and the same tensor
            clip_(gradients, work.clip)
        self.descend(values, gradients, count)

    def decayed(self, values: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        """The gradients with that of the L2 penalty."""
        decay = self.work.decay
        return list(torch._foreach_add(gradients, values, alpha=decay)) if decay else gradients

    def rate_of(self, value: Tensor) -> Rate:
        """The learning rate as a factor for a stack."""
        if not isinstance(self.lr, Tensor) or self.lr.dim() == 0:
            return self.lr
        return self.lr.view(-1, *[1] * (value.dim() - 1))

    def subtract_(self, values: list[Tensor], directions: list[Tensor]) -> None:
        """``w <- w - lr * direction``."""
        if isinstance(self.lr, Tensor) and self.lr.dim():
            for value, direction in zip(values, directions, strict=True):
                value.sub_(direction * self.rate_of(value))
        else:
            torch._foreach_add_(values, directions, alpha=-self.lr)  # type: ignore[arg-type]  # or a tensor of no dimension
