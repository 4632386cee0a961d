"""A fingerprint of a task: a resumed run must have the same data, partition and initial model as before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import input_names
from fedloom.core.task import Task

FINGERPRINT_NUMBERS = 1 << 22
"""If the inputs have more numbers than this, a sample of about this size is hashed."""
TO_RUN_ANYWAY = "restore the data, or remove the section made_by from the file to run another experiment"


def fingerprint(task: Task) -> str:
    """A short hash that changes with the data, the partition, the drift and the initial model of a task."""
    federation = task.federation
    inputs = {name: federation.columns[name] for name in input_names(federation.columns)}
    shapes = {name: tuple(column.shape) for name, column in inputs.items()}
    digest = hashlib.blake2b(repr((shapes.get("x", shapes), task.layout.slots)).encode(), digest_size=8)
    digest.update(repr((federation.withheld, [since for since, _ in federation.later])).encode())
    states = (federation, *(later for _, later in federation.later))
    lists = [part for state in states for part in (state.train, state.test, state.valid)]
    numbers = [
        *(_sample(column.reshape(-1)) for column in inputs.values()),
        federation.columns["y"],
        task.initial_row(),
        *task.layout.constants(task.model).values(),
        federation.global_test,
        federation.communal,
        *(t for part in lists for t in (part.order, part.starts)),
    ]
    if task.architectures is not None:
        each = task.by_architecture
        digest.update(repr([one.layout.slots for one in each]).encode())
        constants = [tensor for one in each for tensor in one.layout.constants(one.model).values()]
        numbers += [task.architectures.of_client, *(one.initial_row() for one in each), *constants]
    if len(federation.server):
        numbers.append(federation.server)
    if federation.seen is not None:  # the tasks of a stream differ in more than the clients' parts
        numbers += [t for state in states if state.seen is not None for t in (state.seen, state.global_test)]
        numbers += [state.communal for state in states]
    numbers += (*federation.fingerprint_tensors, *task.fingerprint_tensors)  # the edges of graphs, the tables of flows
    for tensor in numbers:
        hash_tensor(digest, tensor)
    return digest.hexdigest()


def hash_tensor(digest: hashlib.blake2b, tensor: Tensor) -> None:
    """Add a tensor's bytes to a hash, without a copy where it is contiguous."""
    whole = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor  # numpy has no bfloat16
    digest.update(np.ascontiguousarray(whole.numpy()).data)


def refuse_other_task(before: Mapping[str, str], now: str, what: str, advice: str) -> None:
    """Refuse a task whose fingerprint is not the one that was noted; without a note there is nothing to refuse.

    Args:
        before: The notes of the run (``made_by``).
        now: The fingerprint of the task.
        what: What the error calls the run.
        advice: What to do about it, without a full stop.
    """
    if before.get("task") not in (None, now):
        raise FedloomError(f"{what} was started with other data, another partition or another model: {advice}.")


def _sample(numbers: Tensor) -> Tensor:
    return numbers[:: max(1, len(numbers) // FINGERPRINT_NUMBERS)]
