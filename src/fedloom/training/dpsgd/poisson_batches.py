"""Batches of DP-SGD: a step has each sample of a client with the same probability, independently of the others.

A batch has no fixed size, so nothing is ever cut off: clients that step together are padded to the largest batch that
was drawn. Who is drawn must be as secret as the noise, so it comes from the operating system's generator, unless the
run asks for its seed by name.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedloom.privacy.sampling import sampling_rate
from fedloom.privacy.secure_random import secure_uniform
from fedloom.training.batches import Assignment, BatchStep


def draw_batches(work: Sequence[Assignment], places: int | Tensor, generators: Sequence[torch.Generator]) -> BatchStep:
    """One step of some clients.

    Args:
        work: What each of these clients does.
        places: Their places in the cohort.
        generators: The generators of these clients if the run is seeded; none otherwise.
    """
    drawn = [
        one.positions[_chances(one.samples, generators[k] if generators else None) < _rate(one)]
        for k, one in enumerate(work)
    ]
    widest = max(1, *(len(some) for some in drawn)) if drawn else 1
    positions = torch.stack([torch.cat([some, one.positions[:1].expand(widest - len(some))]) for some, one in zip(drawn, work, strict=True)])  # fmt: skip # noqa: E501
    mask = (torch.arange(widest) < torch.tensor([[len(some)] for some in drawn])).float()
    return BatchStep(places, positions, mask)


def _rate(one: Assignment) -> float:
    return sampling_rate(one.samples, one.batch_size)


def _chances(count: int, generator: torch.Generator | None) -> Tensor:
    """Uniform numbers of at least 0 and below 1."""
    if generator is not None:
        return torch.rand(count, generator=generator, dtype=torch.float64)
    return 1 - torch.from_numpy(secure_uniform(count))
