"""FedAvg: clients train the shared model on their own data; the server takes the weighted mean of their models.

``w <- sum_k p_k w_k``, where ``w_k`` is w after client k's local training.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017,
https://arxiv.org/abs/1602.05629. The weights p_k are normalised over the clients of the round. FedAvg has no settings
of its own: how long clients train is the run's local work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.algorithm import Algorithm
from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact
from fedloom.core.message import Message, Reply
from fedloom.core.pull import Pull


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Clients train the shared model on their own data; the server takes the weighted mean of their models."""

    grants: ClassVar[Collection[Fact]] = (
        Fact.ONLY_MEANS,
        Fact.ONLY_TRAINING,
    )

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Train from the received model.

        Args:
            cohort: The clients.
            message: What they got from the server.
        """
        return Reply({"row": cohort.train(cohort.spread(message["row"]), pull=self.pull(message))})

    def pull(self, message: Message) -> Pull | None:
        """The term that a variant adds to the gradient rows; FedAvg adds none.

        Args:
            message: What the clients got from the server.
        """
        return None
