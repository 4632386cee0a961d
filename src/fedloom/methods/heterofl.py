"""HeteroFL: clients train narrow versions of one wide network, as wide as their devices bear.

A client's model is the corner of the server's: the first units of every layer (``core/corners.py``). It gets these
weights only, and sends them back. Every entry of the wide model becomes the mean over the clients that have it,
``w[e] = sum_k p_k w_k[e] / sum_k p_k`` over k with e in their corner; an entry that no client of the round has stays as
it is. With one width it is FedAvg. ``task.models`` names the widths: ``{"resnet8:widths=[16,32,64]" = 0.5,
"resnet8:widths=[8,16,32]" = 0.5}``; the first is the server's, and the widest.

Diao, Ding and Tarokh, HeteroFL: Computation and Communication Efficient Federated Learning for Heterogeneous Clients,
ICLR 2021, https://arxiv.org/abs/2010.01264. There, means count clients; here they have the run's weights, of which
``weight_by = uniform`` is the paper's. The paper scales the outputs of narrow layers by their share of the width and
has batch statistics only for evaluation: nothing is scaled here, and our networks have GroupNorm, which undoes a scale.
With ``masked`` the authors' server averages an output's weights over the clients that have its class; ours is not told
which these are, and averages over all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.corners import corner_columns
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply, Wave
from fedloom.core.network import Network
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task


@dataclass(frozen=True)
class HeteroFL(Algorithm):
    """Clients train corners of one wide network; every weight is averaged over those who have it.

    Args:
        masked: Whether a client's outputs for classes that it has no samples of are 0 in its training, so that it
            leaves the weights of these outputs as they were; the paper does so where labels differ between clients.
    """

    aggregates: ClassVar[bool] = False

    masked: bool = False

    @property
    def mixes_models(self) -> bool:
        return True

    @property
    def predicts_with_received(self) -> bool:
        return True

    def check(self, task: Task, work: LocalWork) -> None:
        if self.masked and not task.classifies:
            raise FedloomError("heterofl: masked=true leaves out classes, but this task has none: leave it out.")
        if task.architectures is None:
            return
        for own, name in zip(task.by_architecture, task.architectures.names, strict=True):
            corner_columns(task.server_layout, own.layout, ("the server's model", name))

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        parts = {0: ids} if context.task.architectures is None else context.task.architectures.split(ids)
        found: list[tuple[Tensor, Replies]] = []
        for number, some in parts.items():
            columns = corner_columns(context.layout, context.of_architecture(number).layout)
            found.append((columns, (yield Wave(some, Message({"row": server["row"][columns]})))))
        weights = context.weigh(
            torch.cat([replies.samples for _, replies in found]), torch.cat([replies.steps for _, replies in found])
        )
        return {**server, "row": average_corners(server["row"], [(c, r["row"]) for c, r in found], weights)}

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = cohort.spread(message["row"])
        if not self.masked:
            return Reply({"row": cohort.train(rows)})
        objective = cohort.task.objective

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
            return objective.losses(net(x) * given["has"], y)

        return Reply({"row": cohort.train(rows, loss=loss, given={"has": (cohort.classes() > 0).float()})})

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
