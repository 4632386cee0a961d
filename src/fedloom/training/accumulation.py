"""Gradient accumulation: a step along the mean gradient of several batches.

The batches of a step are split off it after it is drawn, and sums of losses are differentiated, so the step is that of
one large batch, whatever the sizes of the small ones are; the memory is that of a small one.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedloom.core.inputs import Inputs, map_inputs
from fedloom.training.keyed_dropout import step_key

Batch = tuple[Inputs, Tensor, Tensor | None, Tensor]
"""Inputs, targets, mask and dropout keys."""


def batches_of_step(batch: Batch, size: int, axis: int) -> Iterator[Batch]:
    """The batches that a step is made of; each drops other units.

    Args:
        batch: All of the step.
        size: The samples of a batch.
        axis: Along which axis samples are.
    """
    x, y, mask, keys = batch
    for number, start in enumerate(range(0, y.shape[axis], size)):
        length = min(size, y.shape[axis] - start)
        some = None if mask is None else mask.narrow(axis, start, length)
        part = map_inputs(lambda tensor, start=start, length=length: tensor.narrow(axis, start, length), x)  # type: ignore[misc]
        yield part, y.narrow(axis, start, length), some, step_key(keys, number) if number else keys


def add_gradients(total: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
    """The sums of gradients; those of the first batch are all there is before it.

    Args:
        total: The sums so far; empty before the first batch.
        gradients: Those of the next batch.
    """
    return list(torch._foreach_add(total, gradients)) if total else gradients
