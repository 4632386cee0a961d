"""What a method's clients train on: the task's own clients, or all their data in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedloom.core.algorithm import Algorithm
from fedloom.core.facts import Fact, holds
from fedloom.core.task import FederationView, Task


def training_federation(
    task: Task, algorithm: Algorithm, federation: FederationView, new: Sequence[int]
) -> FederationView:
    """The federation that is trained on. Pooled data are trained on once for each architecture of the clients' models.

    Args:
        algorithm: Its method.
        federation: The task's federation, as it stands in a round.
        new: The clients that are held out of training.
    """
    if holds(Fact.OWN_DATA, algorithm):
        return federation
    pooled = federation.as_one_client(new)
    return pooled if task.architectures is None else pooled.repeat(len(task.architectures))


def training_task(task: Task, algorithm: Algorithm, new: Sequence[int]) -> Task:
    """The task as the method's clients train on it.

    Args:
        algorithm: Its method.
        new: The clients that are held out of training.
    """
    federation = training_federation(task, algorithm, task.federation, new)
    if federation is task.federation:
        return task
    pooled = None if task.architectures is None else task.architectures.one_client_each()
    return replace(task, federation=federation, architectures=pooled)
