"""Local: every client trains alone, from the same initial model. Nothing is sent.

``w_k <- train(w_k)`` on client k's own data, round after round. The baseline for personal models: what a client gains
from a federation must beat this. There is no paper.

With ``communal_epochs`` clients then train on the labels of the communal set: the control of methods that distil on it,
whose gain may be nothing but these labels.
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
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.settings import WholeNumber
from fedloom.core.task import Task
from fedloom.methods.requirements import require_communal, require_labels_of_communal


@dataclass(frozen=True)
class Local(Algorithm):
    """Every client trains alone from the same initial model; nothing is sent.

    Args:
        communal_epochs: Passes over the communal samples and their labels after clients' own training.
    """

    breaks: ClassVar[Facts] = {
        Fact.EXCHANGES: "sends nothing",
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.ONE_MEAN: "takes no mean of its clients' models",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_TRAINING,)
    receives: ClassVar[Declared] = {}
    sends: ClassVar[Declared] = {}
    keeps: ClassVar[Kept] = {"row": "the site's own model"}

    communal_epochs: WholeNumber = 0

    def check(self, task: Task, work: LocalWork) -> None:
        if self.communal_epochs:
            require_communal("local with communal_epochs", task)
            require_labels_of_communal("local with communal_epochs", task)

    def start(self, task: Task) -> State:
        return {}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message()

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = cohort.train(self.weights_for(message, cohort))
        if self.communal_epochs:
            work = cohort.setting.work.for_epochs(self.communal_epochs)
            rows = cohort.train(rows, work=work, on=cohort.task.federation.communal)
        cohort.keep("row", rows)
        return Reply({})

    def aggregate(self, server: State, replies: Replies) -> State:
        return server

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("row", cohort.spread(cohort.task.initial_row()))
