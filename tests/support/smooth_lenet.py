"""The LeNet of DLG's authors for 8×8 images: convolutions with sigmoids, so that it is twice differentiable."""

from __future__ import annotations

import torch
from torch import nn


def smooth_lenet() -> nn.Sequential:
    """A LeNet with sigmoids, always with the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            *(nn.Conv2d(1, 12, 5, padding=2), nn.Sigmoid()),
            *(nn.Conv2d(12, 12, 5, padding=2), nn.Sigmoid()),
            *(nn.Conv2d(12, 12, 5, padding=2), nn.Sigmoid()),
            *(nn.Flatten(), nn.Linear(12 * 64, 10)),
        )
