"""FedSGD: one gradient step per round.

``w <- w - lr * sum_k p_k grad F_k(w)``: clients send the gradient of all their data, the server takes the step.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017,
https://arxiv.org/abs/1602.05629. ``theta`` > 0 is the selective form of Shokri and Shmatikov, Privacy-Preserving Deep
Learning, CCS 2015, https://doi.org/10.1145/2810103.2813687: clients send only the entries whose magnitude exceeds
theta, each with its position. The unweighted form is ``weight_by = "uniform"``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Update
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedSGD(FedAvg):
    """One gradient step per round: clients send the gradient of all their data, the server takes the step.

    Args:
        theta: Clients send only gradient entries whose magnitude exceeds this; 0 sends all of them.
    """

    breaks: ClassVar[Facts] = {Fact.TRAINS_LOCALLY: "lets clients send a gradient, and train no model"}
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    sends: ClassVar[Declared] = {"change": Update("the change of the model by the site's data")}
    theta: NonNegative = 0.0

    def start(self, task: Task) -> State:
        if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in task.model.modules()):
            raise FedloomError(
                "fedsgd sends gradients, but BatchNorm's statistics have none: use GroupNorm, or fedavg."
            )
        return super().start(task)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        change = -cohort.lr * cohort.gradient(cohort.spread(message["row"]))
        if self.theta == 0:
            return Reply({"change": change})
        chosen = change.abs() > self.theta * cohort.lr
        return Reply({"change": change * chosen}, bytes=chosen.sum(1) * 8)  # a value and its position, 4 bytes each

    def aggregate(self, server: State, replies: Replies) -> State:
        return {**server, "row": server["row"] + replies.mean("change")}
