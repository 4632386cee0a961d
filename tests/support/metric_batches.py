"""Random outputs and targets, and a metric's sums over random batches of them."""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.core.metric import Metric


def random_outputs(samples: int, classes: int, seed: int, scale: float = 1.5) -> tuple[Tensor, Tensor]:
    """Logits that are right more often than by chance, and the classes."""
    draw = torch.Generator().manual_seed(seed)
    targets = torch.randint(classes, (samples,), generator=draw)
    outputs = scale * torch.randn(samples, classes, generator=draw)
    outputs[torch.arange(samples), targets] += scale
    return outputs, targets


def totals(metric: Metric, outputs: Tensor, targets: Tensor, parts: int, seed: int) -> Tensor:
    """A metric's sums over batches: the samples in random order, in this many parts of random sizes (some empty)."""
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(targets), generator=draw)
    owners = torch.randint(parts, (len(targets),), generator=draw)
    batches = [order[owners == part] for part in range(parts)]
    return torch.stack([metric.sums(outputs[one], targets[one]).double() for one in batches]).sum(0)
