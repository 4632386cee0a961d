"""The adversary: some clients play another role, or the server looks at what it should not.

An attack overrides what it needs: ``poison_task`` acts on the data of hostile clients before the run, ``poison_update``
on what they reply, and ``look`` sees what reaches the server. All three are keyed by the run's seed, so that a run with
an adversary is as reproducible as one without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Replies, Wave
from fedloom.core.seeds import numpy_generator
from fedloom.core.task import Task


@dataclass(frozen=True)
class Adversary:
    """The base class of attacks: its hostile clients behave like the others. Its settings are its fields.

    Args:
        clients: The numbers of the hostile clients; by default they are drawn by the run's seed.
        fraction: The share of hostile clients if ``clients`` does not name them, rounded up.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    clients: list[int] | None = None
    fraction: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise FedloomError(f"adversary: fraction={self.fraction} must be above 0 and at most 1.")
        if self.clients is not None and not self.clients:
            raise FedloomError("adversary: clients is an empty list: name at least one client, or leave it out.")

    def members(self, participants: Sequence[int], seed: int) -> frozenset[int]:
        """The hostile clients among those who may take part.

        Args:
            participants: The clients who may take part in training.
            seed: The seed of the run.
        """
        if self.clients is not None:
            there = set(participants)
            strange = [client for client in self.clients if client not in there]
            if strange:
                raise FedloomError(f"adversary: no client {strange[0]} takes part in training: name other clients.")
            return frozenset(self.clients)
        number = math.ceil(self.fraction * len(participants) - 1e-9)
        drawn = numpy_generator(seed, "adversary").choice(len(participants), number, replace=False)
        return frozenset(int(participants[place]) for place in drawn)

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Raise a ``FedloomError`` for a method or a task that this attack cannot act on, before any work is done.

        Args:
            algorithm: The method of the run.
            task: The task of the run.
        """

    def poison_task(self, task: Task, hostile: frozenset[int], seed: int) -> Task:
        """The task with the data of hostile clients changed.

        Args:
            task: The task of the run.
            hostile: The hostile clients.
            seed: The seed of the run.
        """
        return task

    def poison_update(self, name: str, changes: Tensor, cohort: Cohort, hostile: Tensor) -> Tensor:
        """The changes that clients reply with; only the rows of hostile clients are used.

        Args:
            name: The name of the reply's tensor.
            changes: The change of each client of the cohort: its difference to what it received.
            cohort: The clients.
            hostile: A mask of the hostile ones.
        """
        return changes

    def look(self, wave: Wave, replies: Replies) -> None:
        """See what the server sent and got, as it sees them: after the channel.

        Args:
            wave: What was sent, to the clients that answered.
            replies: What they answered.
        """
