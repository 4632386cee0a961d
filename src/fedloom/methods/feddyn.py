"""FedDyn: a dynamic regulariser makes every client's stationary point the global one.

- client: minimise ``F_i(w) - <g_i, w> + alpha/2 * ||w - w_t||^2``, then ``g_i <- g_i - alpha * (w_i - w_t)``
- server: ``h <- h - alpha/K * sum(w_i - w_t)``, ``w <- mean(w_i) - h / alpha``

g_i stays with its client; K is the number of all clients.

Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021, https://arxiv.org/abs/2111.04263. Corrected
against text that circulates: the server divides by all clients, not by the selected ones, and the linear term has a
live gradient and is updated once per round. With weights by samples this solves the sample-weighted problem;
``weight_by = "uniform"`` is the paper's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Kept
from fedloom.core.facts import Fact
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.pull import Affine
from fedloom.core.settings import Positive
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """FedAvg with a dynamic regulariser: clients minimise ``F_i(w) - <g_i, w> + alpha/2 * ||w - w_t||^2``.

    Args:
        alpha: Weight of the regulariser; it must be positive.
    """

    grants: ClassVar[Collection[Fact]] = (
        Fact.ONLY_SUMS,
        Fact.ONLY_TRAINING,
    )
    keeps: ClassVar[Kept] = {"g": "the site's own gradient term"}

    alpha: Positive = 0.1

    def start(self, task: Task) -> State:
        row = task.initial_row()
        return {"row": row, "h": torch.zeros_like(row)}

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received = cohort.spread(message["row"])
        g = cohort.kept_rows("g", cohort.spread(torch.zeros_like(message["row"])))

        def pull(rows: Tensor, received: Tensor, g: Tensor) -> Tensor:
            return self.alpha * (rows - received) - g

        rows = cohort.train(received, pull=Affine(pull), given={"g": g})
        cohort.keep("g", g - self.alpha * cohort.task.layout.mask_trained(rows - received))
        return Reply({"row": rows})

    def aggregate(self, server: State, replies: Replies) -> State:
        layout = replies.context.task.layout
        h = server["h"] - self.alpha * layout.mask_trained(replies.shares @ (replies["row"] - server["row"]))
        return {"row": replies.mean("row") - h / self.alpha, "h": h}
