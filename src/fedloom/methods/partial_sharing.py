"""Partial sharing: one part of the model is shared, the other part stays with its client.

The base of FedPer, LG-FedAvg, FedRep and FedBABU. Only the shared part travels, in either direction. A part that a
client has not trained yet is that of the initial model, so all clients start alike. A client predicts with the new
shared part and the part it kept. Means are weighted as the run says (the original codes of LG-FedAvg and FedBABU do not
weight).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Model, columns_of_part
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task
from fedloom.methods.requirements import require_body_and_head

BODY = columns_of_part("body")


@dataclass(frozen=True)
class PartialSharing(Algorithm):
    """Clients share one part of the model; ``shared`` names it, ``own`` names the part that stays with its client."""

    breaks: ClassVar[Facts] = {Fact.WHOLE_MODEL: "shares a part of the model only"}
    grants: ClassVar[Collection[Fact]] = (
        Fact.ONLY_MEANS,
        Fact.ONLY_TRAINING,
    )
    shared: ClassVar[str] = "body"
    own: ClassVar[str | None] = "head"
    receives: ClassVar[Declared] = {"body": Model("the model's body, all but its head", columns=BODY)}
    sends: ClassVar[Declared] = {"body": Model("the body that the site trained", columns=BODY)}
    keeps: ClassVar[Kept] = {
        "body": "the model's body, as the site trained it",
        "head": "the model's head, as the site trained it",
    }

    def check(self, task: Task, work: LocalWork) -> None:
        require_body_and_head(self, task)

    def start(self, task: Task) -> State:
        return {"row": task.initial_row(), "columns": task.layout.columns(self.shared)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({self.shared: server["row"][server["columns"]]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = self.train(cohort, self.weights_for(message, cohort))
        if self.own is not None:
            cohort.keep(self.own, cohort.task.layout.take(rows, self.own))
        return Reply({self.shared: cohort.task.layout.take(rows, self.shared)})

    def train(self, cohort: Cohort, rows: Tensor) -> Tensor:
        """Local training: all of the model at once, unless a method overrides it."""
        return cohort.train(rows)

    def aggregate(self, server: State, replies: Replies) -> State:
        row = server["row"].clone()
        row[server["columns"]] = replies.mean(self.shared)
        return {**server, "row": row}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        layout, rows = cohort.task.layout, cohort.spread(cohort.task.initial_row())
        if self.own is not None:
            rows = layout.put(rows, self.own, cohort.kept_rows(self.own, layout.take(rows, self.own)))
        return layout.put(rows, self.shared, message[self.shared])
