"""What a model predicts of the global test set, which nobody trains on."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedloom.core.inputs import Inputs
from fedloom.core.server_context import ServerContext
from fedloom.core.targets import IGNORED

AT_ONCE = 2048
"""Samples that a model sees together."""


def predictions_on_test(row: Tensor, context: ServerContext) -> tuple[Tensor, Tensor]:
    """The predicted and the true class of every test sample, or of every position of it that counts.

    Args:
        row: The model.
        context: What the server has in this round.
    """
    positions, task = context.task.federation.global_test, context.task
    predicted = predicted_classes(row, context, positions, task.inputs)
    actual = task.targets(positions).reshape(-1)
    counts = actual != IGNORED
    return predicted[counts], actual[counts]


def predicted_classes(
    row: Tensor, context: ServerContext, positions: Tensor, inputs: Callable[[Tensor], Inputs]
) -> Tensor:
    """The class that a model predicts for each sample, or for each position of each sample.

    Args:
        row: The model.
        context: What the server has in this round.
        positions: The samples.
        inputs: The prepared inputs at some positions, as the model is to see them.
    """
    found = [context.forward(row[None], inputs(some))[0] for some in torch.split(positions, AT_ONCE)]
    outputs = [context.task.predictions(one).reshape(-1, one.shape[-1]).argmax(1) for one in found]
    return torch.cat([torch.zeros(0, dtype=torch.int64), *outputs])
