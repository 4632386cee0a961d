"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.pull import Affine
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.scaffold import _trained


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """FedAvg with a dynamic regulariser: clients minimise ``F_i(w) - <g_i, w> + alpha/2 * ||w - w_t||^2``.

    Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021. Then ``g_i -= alpha * (w_i - w_t)``,
    which stays with the client, and on the server ``h -= alpha/K * sum(w_i - w_t)``, ``w = mean(w_i) - h / alpha``.
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        if not self.alpha > 0:
            raise FedloomError(f"alpha={self.alpha}: the regulariser's weight must be positive; without it use fedavg.")

    def start(self, task: Task) -> State:
        row = task.initial_row()
        return {"row": row, "h": torch.zeros_like(row)}

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received = cohort.spread(message["row"])
        own = cohort.kept_rows("g", cohort.spread(torch.zeros_like(message["row"])))

        def pull(rows: Tensor, received: Tensor, g: Tensor) -> Tensor:
            return self.alpha * (rows - received) - g

        rows = cohort.train(received, pull=Affine(pull), given={"g": own})
        cohort.keep("g", own - self.alpha * _trained(cohort.task, rows - received))
        return Reply({"row": rows})

    def aggregate(self, server: State, replies: Replies) -> State:
        task = replies.context.task
        moved = _trained(task, replies.shares @ (replies["row"] - server["row"]))
        h = server["h"] - self.alpha * moved
        return {"row": replies.mean("row") - h / self.alpha, "h": h}
