"""A fingerprint of a task: a resumed run must have the data, the partition and the initial model it began with."""

from __future__ import annotations

import hashlib

from fedloom.core.task import Task

FINGERPRINT_NUMBERS = 1 << 22
"""Of larger inputs, a sample of about this many numbers is hashed."""


def fingerprint(task: Task) -> str:
    """A short number that changes when a task has other data, another partition or drift, or another initial model."""
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
    numbers += federation.fingerprint_tensors  # the edges of graphs
    numbers += getattr(task.prepare, "fingerprint_tensors", ())  # the tables of flows
    for tensor in numbers:
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
