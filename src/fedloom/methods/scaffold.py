"""Drift control: clients are told which way their own data pull them, and do not go there.

SCAFFOLD (Karimireddy et al., ICML 2020) subtracts a control variate from every local gradient; FedDyn (Acar et al.,
ICLR 2021) adds a linear term that makes every client's stationary point the global one. Both reach the optimum where
FedAvg stops beside it. Corrected here against text that circulates: the correction enters a *descent* step; SCAFFOLD
counts steps, not epochs; both servers divide by all clients, not by the selected; FedDyn's linear term has a live
gradient, and is updated once per round. With the run's weighting by samples both solve the sample-weighted problem;
``weight_by = "uniform"`` is the papers' one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.pull import Affine
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class SCAFFOLD(FedAvg):
    """FedAvg with control variates: each local step is ``y - lr * (gradient - c_i + c)``.

    Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020. ``option`` 1 sets
    c_i to the full gradient at the received model (an extra pass), 2 to ``c_i - c + (x - y) / (steps * lr)``.
    """

    option: Literal[1, 2] = 2
    server_lr: float = 1.0

    def __post_init__(self) -> None:
        if not self.server_lr > 0:
            raise FedloomError(f"server_lr={self.server_lr}: it must be a positive number.")

    def check(self, task: Task, work: LocalWork) -> None:
        if self.option == 2 and (work.optimizer != "sgd" or work.momentum):
            raise FedloomError(
                "scaffold's option 2 reads the mean gradient off plain SGD steps: use local.optimizer = sgd without "
                "momentum, or scaffold:option=1."
            )

    def start(self, task: Task) -> State:
        row = task.initial_row()
        return {"row": row, "c": torch.zeros_like(row)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"row": server["row"], "c": server["c"]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received, c = cohort.spread(message["row"]), message["c"]
        own = cohort.kept_rows("c", cohort.spread(torch.zeros_like(message["row"])))
        gradient = cohort.gradient(received) if self.option == 1 else None
        before = cohort.steps.clone()
        rows = cohort.train(received, pull=Affine(lambda *_, drift: drift), given={"drift": c - own})
        change = rows - received
        if gradient is not None:
            correction = gradient - own
        else:  # the new c_i less the old one: -c + (x - y) / (steps * lr), for those who made a step
            steps = (cohort.steps - before).unsqueeze(1)
            correction = torch.addcmul(-c, change, -1 / (steps.clamp(min=1) * cohort.lr))
            correction = correction if bool((steps > 0).all()) else correction * (steps > 0)
        correction = _trained(cohort.task, correction)
        cohort.keep("c", own + correction)
        return Reply({"change": change, "c": correction})

    def aggregate(self, server: State, replies: Replies) -> State:
        row = server["row"] + self.server_lr * replies.mean("change")
        return {"row": row, "c": server["c"] + replies.shares @ replies["c"]}


def _trained(task: Task, change: Tensor) -> Tensor:
    """The change of what is trained: running statistics have no gradient to correct."""
    trained = task.layout.trained_columns
    return change if trained is None else change * trained
