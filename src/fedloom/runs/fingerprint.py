"""A fingerprint of a task: a resumed run must have the same data, partition and initial model as before."""

from __future__ import annotations

import hashlib

from fedloom.core.task import Task

FINGERPRINT_NUMBERS = 1 << 22
"""If the inputs have more numbers than this, a sample of about this size is hashed."""


def fingerprint(task: Task) -> str:
    """A short hash that changes with the data, the partition, the drift and the initial model of a task."""
    federation = task.federation
    digest = hashlib.blake2b(repr((tuple(federation.columns["x"].shape), task.layout.slots)).encode(), digest_size=8)
    digest.update(repr((federation.withheld, [since for since, _ in federation.later])).encode())
    states = (federation, *(later for _, later in federation.later))
    lists = [part for state in states for part in (state.train, state.test, state.valid)]
    inputs = federation.columns["x"].reshape(-1)
    sample = inputs[:: max(1, len(inputs) // FINGERPRINT_NUMBERS)]
    numbers = [
        sample,
        federation.columns["y"],
        task.initial_row(),
        federation.global_test,
        federation.communal,
        *(t for part in lists for t in (part.order, part.starts)),
    ]
    numbers += (*federation.fingerprint_tensors, *task.fingerprint_tensors)  # the edges of graphs, the tables of flows
    for tensor in numbers:
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
