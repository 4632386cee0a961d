"""Local optimisers on stacks: lists of tensors whose first axis is the client.

SGD (momentum, Nesterov, weight decay) and Adam as torch.optim defines them, each client on its own. A client that
takes no part in a step does not advance: its state only changes together with its values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedloom.core.local_work import LocalWork
from fedloom.core.trainer import TrainingRequest


def clip_(gradients: list[Tensor], bound: float) -> None:
    """Scale each client's gradient so that its norm over all tensors is at most ``bound``."""
    squares = torch.stack([g.flatten(1).square().sum(1) for g in gradients]).sum(0)
    scale = (bound / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(scale.view(-1, *[1] * (g.dim() - 1)))


def add_affine_pull(
    request: TrainingRequest, gradients: list[Tensor], values: Sequence[Tensor], constants: list[Tensor]
) -> list[Tensor]:
    """New gradients: the old ones with the request's affine pull added."""
    total = list(torch._foreach_add(gradients, constants))
    if request.slope:
        torch._foreach_add_(total, list(values), alpha=request.slope)
    return total


class Optimizer:
    """The state of a cohort's optimiser, and its step."""

    def __init__(self, work: LocalWork, lr: float, values: list[Tensor], state: list[list[Tensor]] | None = None):
        self.work, self.lr, self.values = work, lr, values
        if state is None:
            moments = 2 if work.optimizer == "adam" else int(work.momentum > 0)
            state = [[torch.zeros_like(v, requires_grad=False) for v in values] for _ in range(moments)]
            state.append([torch.zeros(len(values[0]))])  # steps done, per client
        self.state = state

    def part(self, places: int | Tensor) -> Optimizer:
        """The same optimiser for some clients: views for a prefix, copies for a list of places."""
        cut = slice(places) if isinstance(places, int) else places
        values = [v.detach()[cut] for v in self.values]
        return Optimizer(self.work, self.lr, values, [[s[cut] for s in group] for group in self.state])

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
        alone = work.optimizer == "adam" and len(count) == 1 and not torch.compiler.is_compiling()
        if work.clip is not None or work.nesterov or (work.weight_decay and not alone):
            gradients = [g.clone() for g in gradients]  # autograd may give two parameters one and the same tensor
        if work.clip is not None:
            clip_(gradients, work.clip)
        if alone:
            self._fused_adam(values, gradients, count)
            return
        if work.weight_decay:
            torch._foreach_add_(gradients, values, alpha=work.weight_decay)
        if work.optimizer == "adam":
            self._adam(values, gradients, count)
            return
        if work.momentum:
            (buffers, _) = self.state
            torch._foreach_mul_(buffers, work.momentum)
            torch._foreach_add_(buffers, gradients)
            if work.nesterov:
                torch._foreach_add_(gradients, buffers, alpha=work.momentum)
            else:
                gradients = buffers
        torch._foreach_add_(values, gradients, alpha=-self.lr)

    def _fused_adam(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        """Adam for one client: torch's own step, a single pass over each tensor, weight decay included."""
        work, (first, second, _) = self.work, self.state
        torch._fused_adam_(
            values,
            [_in_layout_of(g, v) for g, v in zip(gradients, values, strict=True)],
            first,
            second,
            [],
            [count[0].clone() for _ in values],
            lr=self.lr,
            beta1=work.beta1,
            beta2=work.beta2,
            weight_decay=work.weight_decay,
            eps=work.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def _adam(self, values: list[Tensor], gradients: list[Tensor], count: Tensor) -> None:
        work, (first, second, _) = self.work, self.state
        torch._foreach_lerp_(first, gradients, 1 - work.beta1)
        torch._foreach_mul_(second, work.beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - work.beta2)
        for value, m, v in zip(values, first, second, strict=True):
            lead = count.view(-1, *[1] * (value.dim() - 1))
            root = (v / (1 - work.beta2**lead)).sqrt_().add_(work.epsilon)
            value.sub_((m / root).mul_(self.lr / (1 - work.beta1**lead)))


def _in_layout_of(gradient: Tensor, value: Tensor) -> Tensor:
    """The gradient with its value's memory layout: the fused step reads both from end to end."""
    return gradient if gradient.stride() == value.stride() else torch.empty_like(value).copy_(gradient)
