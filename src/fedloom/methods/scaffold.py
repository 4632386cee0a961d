"""SCAFFOLD: control variates correct the drift of clients towards their own optima.

With the server's variate c, client i's variate c_i, the received model x and the local model y:

- local step: ``y <- y - lr * (gradient - c_i + c)``
- ``option`` 1: ``c_i+ = full gradient at x`` (one more pass); 2: ``c_i+ = c_i - c + (x - y) / (steps * lr)``, with the
  sum of the rates for ``steps * lr`` where they change within a round
- server: ``x <- x + server_lr * mean(y - x)``, ``c <- c + sum(c_i+ - c_i) / N`` with N the number of all clients

Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
https://arxiv.org/abs/1910.06378. Corrected against text that circulates: the correction enters a *descent* step, steps
are counted and not epochs, and the server divides by all clients, not by the selected ones. With weights by samples
this solves the sample-weighted problem; ``weight_by = "uniform"`` is the paper's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Statistic, Update
from fedloom.core.facts import Fact
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.pull import Affine
from fedloom.core.settings import Positive
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.requirements import require_plain_sgd


@dataclass(frozen=True)
class SCAFFOLD(FedAvg):
    """FedAvg with control variates: each local step is ``y - lr * (gradient - c_i + c)``.

    Args:
        option: How clients update their variate: 1 with a full gradient, 2 from their local steps.
        server_lr: Learning rate of the server.
    """

    receives: ClassVar[Declared] = {**FedAvg.receives, "c": Statistic("the control variate of all sites")}
    sends: ClassVar[Declared] = {"change": Update("the change of its model"), "c": Statistic("that of its variate")}
    keeps: ClassVar[Kept] = {"c": "the site's own control variate"}

    option: Literal[1, 2] = 2
    server_lr: Positive = 1.0

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]  # option 1 sends a gradient of all samples
        return (Fact.ONLY_SUMS, Fact.ONLY_TRAINING) if self.option == 2 else (Fact.ONLY_SUMS,)

    def check(self, task: Task, work: LocalWork) -> None:
        if self.option == 2:
            require_plain_sgd("scaffold's option 2", work, other=", or scaffold:option=1")

    def start(self, task: Task) -> State:
        return {"row": task.initial_row(), "c": torch.zeros(task.layout.width)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"row": server["row"], "c": server["c"]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        x, c = cohort.spread(message["row"]), message["c"]
        c_i = cohort.kept_rows("c", cohort.spread(torch.zeros_like(message["row"])))
        gradient = cohort.gradient(x) if self.option == 1 else None
        y = cohort.train(x, pull=Affine(lambda *_, correction: correction), given={"correction": c - c_i})
        moved = y - x
        if gradient is not None:
            change = gradient - c_i
        else:  # c_i+ - c_i = -c + (x - y) / (steps * lr), for clients that took a step
            rates = cohort.rates.unsqueeze(1)
            change = torch.addcmul(-c, moved, -1 / torch.where(rates > 0, rates, 1.0))
            change = change if bool((rates > 0).all()) else change * (rates > 0)
        change = cohort.task.layout.mask_trained(change)
        cohort.keep("c", c_i + change)
        return Reply({"change": moved, "c": change})

    def aggregate(self, server: State, replies: Replies) -> State:
        x = server["row"] + self.server_lr * replies.mean("change")
        return {"row": x, "c": server["c"] + replies.shares @ replies["c"]}
