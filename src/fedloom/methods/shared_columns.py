"""Some columns of a model are averaged under one name; the rest stays with clients, or as it was.

The base of FedBN and of the methods whose models have more parts than a body and a head.
``methods/partial_sharing.py`` is the same for two parts.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Model
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Replies
from fedloom.core.task import Task


def all_but_the_head(task: Task) -> Tensor:
    """A mask over a row's columns that is true for the body and for what a method added to the model."""
    return ~task.layout.columns("head")


@dataclass(frozen=True)
class SharedColumns(Algorithm):
    """The columns of a row that the declaration of ``shared`` names travel and are averaged, as that tensor."""

    shared: ClassVar[str] = "encoder"
    breaks: ClassVar[Facts] = {Fact.MODEL_PARTS: "sends rows that are neither the model nor one of its parts"}
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)

    def columns(self, task: Task) -> Tensor:
        """A mask over a row's columns that is true for what travels, as it is declared; all of them by default."""
        kind = self.sends[self.shared]
        if isinstance(kind, Model) and kind.columns is not None:
            return kind.columns(task)
        return torch.ones(task.layout.width, dtype=torch.bool)

    def start(self, task: Task) -> State:
        return {"row": task.initial_row(), "columns": self.columns(task)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({self.shared: server["row"][server["columns"]]})

    def aggregate(self, server: State, replies: Replies) -> State:
        row = server["row"].clone()
        row[server["columns"]] = replies.mean(self.shared)
        return {**server, "row": row}

    def own_rows(self, cohort: Cohort) -> Tensor:
        """What clients have of the columns that do not travel: the initial model's, unless a method says otherwise.

        Args:
            cohort: The clients.
        """
        return cohort.spread(cohort.task.initial_row())

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        rows = self.own_rows(cohort).clone()
        rows[:, self.columns(cohort.task)] = message[self.shared]
        return rows
