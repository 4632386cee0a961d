"""Decoupled models: one part of the model is shared, the other stays with its client.

FedPer (Arivazhagan et al., 2019), LG-FedAvg (Liang et al., 2020), FedRep (Collins et al., ICML 2021) and FedBABU (Oh et
al., ICLR 2022). Only the shared part travels, in either direction; what a client has not trained yet begins as in
the initial model, so all clients start alike. A client predicts with the freshly aggregated shared part and the part
it kept. Means are weighted as the run says (the original codes of LG-FedAvg and FedBABU do not weight).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task


def check_head(algorithm: Algorithm, task: Task) -> None:
    """Refuse a model that is not a body and a head."""
    if set(task.layout.parts) != {"body", "head"}:
        raise FedloomError(
            f"{type(algorithm).__name__.lower()} needs a model with a body and a head, and {type(task.model).__name__} "
            f"has {', '.join(task.layout.parts)}: name the head, and nothing but the head, in model.parts."
        )


@dataclass(frozen=True)
class Decoupled(Algorithm):
    """What the family has in common: ``shared`` names the part that travels, the other part is each client's own."""

    shares_whole_model: ClassVar[bool] = False
    shared: ClassVar[str] = "body"
    own: ClassVar[str | None] = "head"

    def check(self, task: Task, work: LocalWork) -> None:
        check_head(self, task)

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
        """How a member of the family trains: all of the model at once, unless it says otherwise."""
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
