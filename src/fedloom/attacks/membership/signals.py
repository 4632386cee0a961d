"""What a model says of samples that it was, or was not, trained on: losses, and scaled confidence.

Scaled confidence is ``log(p_y / (1 - p_y))``, which is about normal over models, where p itself is crowded at 1.
Carlini et al., Membership Inference Attacks From First Principles, S&P 2022, https://arxiv.org/abs/2112.03570, section
V.B; we compute it as ``z_y - logsumexp(z_c, c != y)``, which loses no digits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import inputs_of, outputs_of
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task

BATCH = 1000


def outputs_at(task: Task, row: Tensor, positions: Tensor) -> Tensor:
    """The model's outputs on some samples of a task of classes.

    Args:
        row: The model.
        positions: The samples.
    """
    if not task.classifies or task.has_named_inputs:
        raise FedloomError(f"membership is judged by the classes of samples with one input, and {task.name} has other.")
    tensors = task.layout.views(row)
    with torch.no_grad():
        return torch.cat([outputs_of(task, tensors, inputs_of(task, some)) for some in torch.split(positions, BATCH)])


def losses_at(task: Task, row: Tensor, positions: Tensor) -> Tensor:
    """The cross-entropy of each sample.

    Args:
        row: The model.
        positions: The samples.
    """
    outputs, targets = outputs_at(task, row, positions), task.targets(positions)
    return torch.nn.functional.cross_entropy(outputs.double(), targets, reduction="none")


def confidence_at(task: Task, row: Tensor, positions: Tensor) -> Tensor:
    """The scaled confidence in the class of each sample.

    Args:
        row: The model.
        positions: The samples.
    """
    outputs, targets = outputs_at(task, row, positions).double(), task.targets(positions)
    others = torch.nn.functional.one_hot(targets, outputs.shape[1]).bool()
    right = outputs.gather(1, targets[:, None])[:, 0]
    return right - outputs.masked_fill(others, -torch.inf).logsumexp(1)
