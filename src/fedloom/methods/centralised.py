"""Centralised: all clients' training data in one place, trained by one client.

``w <- train(w)`` on all training data together. The upper baseline: what a federation would like to reach. Clients that
are new (held out of training) do not give their data. Where clients' models differ, each architecture is trained so,
and a client predicts with the one of its own. There is no paper, and it has no settings.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class Centralised(FedAvg):
    """All clients' training data in one place, trained by one client."""

    breaks: ClassVar[Facts] = {
        Fact.EXCHANGES: "has all data in one place",
        Fact.OWN_DATA: "trains on all data in one place",
        Fact.OWN_PREDICTION: "lets clients predict with the model that they receive",
    }
    grants: ClassVar[Collection[Fact]] = (
        Fact.ONLY_MEANS,
        Fact.ONLY_TRAINING,
        Fact.MIXED_MODELS,
    )

    def start(self, task: Task) -> State:
        if task.architectures is None:
            return super().start(task)
        numbers = range(len(task.architectures))
        return {f"row/{number}": task.of_architecture(number).initial_row() for number in numbers}

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        if "row" in server:
            return (yield from super().play(server, ids, context))
        trained = dict(server)
        for number in ids:  # one client per architecture, each with all data
            replies = yield Wave([number], Message({"row": server[f"row/{number}"]}))
            trained[f"row/{number}"] = replies.mean("row")
        return trained

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message(dict(server))

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return message["row"] if "row" in message else message[f"row/{cohort.architecture}"]
