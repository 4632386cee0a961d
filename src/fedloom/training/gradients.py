"""What is done to gradients before they make a step: lists of tensors whose first axis is the client."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

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
