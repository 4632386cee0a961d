"""What ``cohort.train`` and ``context.train`` refuse before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Augment
from fedloom.core.local_work import LocalWork
from fedloom.core.network import Loss
from fedloom.core.task import Task
from fedloom.core.trainer import LossStep


def check_rows(rows: Tensor, given: Mapping[str, Tensor], clients: int, width: int) -> None:
    """Refuse rows that are not one per client, and given tensors without an entry per client.

    Args:
        rows: The rows that are to be trained.
        given: What the pull or the loss needs.
        clients: How many clients there are.
        width: How many numbers a row of the task's model has.
    """
    if tuple(rows.shape) != (clients, width):
        raise FedloomError(
            f"cohort.train needs one row of {width:,} numbers per client, got shape {tuple(rows.shape)} for "
            f"{clients} clients: use cohort.spread(row) for a shared row."
        )
    if rows.dtype != torch.float32:
        raise FedloomError(f"cohort.train needs rows of float32, got {rows.dtype}: convert them with .float().")
    for name, value in given.items():
        if not isinstance(value, Tensor) or value.dim() == 0 or len(value) != clients:
            found = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise FedloomError(
                f"given['{name}'] of cohort.train is {found} for {clients} clients: give a tensor with one entry "
                "per client (cohort.spread(row) for a shared row)."
            )


def check_private_work(work: LocalWork, planned: LocalWork) -> None:
    """Refuse batches of another size than DP-SGD's ledgers count: a larger batch draws each sample more often.

    Args:
        work: What a method trains with.
        planned: What ledgers count.
    """
    if work.batch_size != planned.batch_size:
        raise FedloomError(
            f"the method trains with batch_size={work.batch_size}, and the privacy of samples is counted for the run's "
            f"local.batch_size={planned.batch_size}: set local.batch_size to {work.batch_size}, or let the method "
            "train with cohort.setting.work."
        )


def check_training(
    task: Task, positions: Tensor | None, augment: Augment | None, loss: Loss | None, steps: Sequence[LossStep]
) -> None:
    """Refuse samples that are not sorted positions, an augmentation of several columns, and two kinds of losses.

    Args:
        positions: The samples that are trained on in the place of clients' own.
        augment: What replaces the task's augmentation.
        loss: A loss that replaces the task's.
        steps: Steps with losses of their own.
    """
    if positions is not None:
        check_positions(positions)
    if augment is not None and task.has_named_inputs:
        raise FedloomError(f"augment changes one input column, but task {task.name} has several: leave it off.")
    if loss is not None and steps:
        raise FedloomError("a training has one loss, or steps with a loss each: give each step its loss.")


def check_positions(positions: Tensor) -> None:
    """Refuse samples that are not named by sorted positions.

    Args:
        positions: The positions in the federation's columns.
    """
    if positions.dim() != 1 or positions.dtype != torch.int64:
        raise FedloomError(
            f"samples are named by a vector of positions (int64), got {positions.dtype} of shape "
            f"{tuple(positions.shape)}."
        )
    if not len(positions):
        raise FedloomError(
            "there are no samples to train on or to look at: a method that uses the communal set needs task.communal."
        )
    if not bool((positions.diff() > 0).all()):
        raise FedloomError("positions of samples must be sorted, and none may occur twice: use positions.unique().")
