"""Local: every client trains alone, from the same initial model. Nothing is sent.

``w_k <- train(w_k)`` on client k's own data, round after round. The baseline for personal models: what a client gains
from a federation must beat this. There is no paper, and it has no settings.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task


@dataclass(frozen=True)
class Local(Algorithm):
    """Every client trains alone from the same initial model; nothing is sent."""

    breaks: ClassVar[Facts] = {
        Fact.EXCHANGES: "sends nothing",
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.ONE_MEAN: "takes no mean of its clients' models",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_TRAINING,)
    receives: ClassVar[Declared] = {}
    sends: ClassVar[Declared] = {}
    keeps: ClassVar[Kept] = {"row": "the site's own model"}

    def start(self, task: Task) -> State:
        return {}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message()

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        cohort.keep("row", cohort.train(self.weights_for(message, cohort)))
        return Reply({})

    def aggregate(self, server: State, replies: Replies) -> State:
        return server

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("row", cohort.spread(cohort.task.initial_row()))
