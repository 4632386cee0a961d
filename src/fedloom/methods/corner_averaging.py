"""Averaging of corners: clients have narrow versions of one wide network, and each weight is averaged over its owners.

The base of HeteroFL and FjORD. A client's model is the corner of the server's: the first units of every layer
(``core/model/corners.py``). It trains these weights only, gets them only, and sends them back; to
be measured it gets the wide model and takes its corner. Every entry of the wide model becomes the mean
over the clients that have it, ``w[e] = sum_k p_k w_k[e] / sum_k p_k`` over k with e in their corner; an entry that no
client of the round has stays as it is. ``task.models`` names the widths: ``{"mlp:hidden=[64]" = 0.5,
"mlp:hidden=[16]" = 0.5}``; the first is the server's, and the widest.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Wave
from fedloom.core.model.corners import corner_columns
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task


@dataclass(frozen=True)
class CornerAveraging(Algorithm):
    """Clients have corners of one wide network; every weight is averaged over those who have it."""

    breaks: ClassVar[Facts] = {
        Fact.ONE_MEAN: "averages every weight over other clients",
        Fact.OWN_PREDICTION: "lets clients predict with the model that they receive",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.MIXED_MODELS,)

    def check(self, task: Task, work: LocalWork) -> None:
        if task.architectures is None:
            return
        wide = task.server_layout
        for own, name in zip(task.by_architecture, task.architectures.names, strict=True):
            corner_columns(wide, own.layout, ("the server's model", name))
        if all(own.layout != wide for own in task.by_architecture):
            raise FedloomError(
                "the server's model is wider than those of all clients, so nobody would train the rest of it: leave "
                "out task.model, or give it to some clients in task.models."
            )

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        row = server["row"]
        parts = {0: ids} if context.task.architectures is None else context.task.architectures.split(ids)
        found: list[tuple[Tensor, Replies]] = []
        for number, some in parts.items():
            columns = corner_columns(context.layout, context.of_architecture(number).layout)
            found.append((columns, (yield Wave(some, Message({"row": row[columns]})))))
        if len(found) == 1 and len(found[0][0]) == len(row):  # all of them have all of it
            return {**server, "row": found[0][1].mean("row")}
        weights = context.weigh(
            torch.cat([replies.samples for _, replies in found]), torch.cat([replies.steps for _, replies in found])
        )
        return {**server, "row": average_corners(row, [(c, r["row"]) for c, r in found], weights)}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        row, own = message["row"], cohort.task.layout
        if len(row) == own.width:
            return row
        return row[corner_columns(cohort.task.server_layout, own)]


def average_corners(row: Tensor, replies: list[tuple[Tensor, Tensor]], weights: Tensor) -> Tensor:
    """The wide row in which every entry is the mean over the clients that have it.

    Args:
        row: The wide row before the round.
        replies: For the clients of each width, the columns of the wide row that they have, and their rows.
        weights: The weights of all these clients, in the same order.
    """
    sums, total = torch.zeros_like(row), torch.zeros_like(row)
    each = torch.split(weights.to(row.dtype), [len(rows) for _, rows in replies])
    for (columns, rows), own in zip(replies, each, strict=True):
        sums.index_add_(0, columns, own @ rows)
        total.index_add_(0, columns, own.sum().expand(len(columns)))
    return torch.where(total > 0, sums / total.clamp(min=torch.finfo(row.dtype).tiny), row)
