"""FedProxExit: FedProx whose clients leave when they have converged, with a mu that adapts.

As FedAvgExit, with FedProx's proximal term. mu starts at ``mu`` and follows the weighted mean of the clients' losses
(see ``adaptive_mu``), in which a client that left keeps its last one; ``adaptive=false`` fixes it. With ``tolerance =
0`` nobody leaves, and this is FedProx.

Tavakoli 2023 (Fed-GALA), section 3, after Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020,
https://arxiv.org/abs/1812.06127. The proximal term acts beside the local optimiser, ``w - min(lr mu, 1) (w - w_t)``,
which is FedProx for SGD; inside Adam it would be rescaled, and diverge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.cycle import Cycle, Slots
from fedloom.core.declarations import Declared
from fedloom.core.facts import Fact, Facts
from fedloom.core.message import Message, Replies
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task
from fedloom.methods.adaptive_mu import MU, adapt_mu, initial_mu
from fedloom.methods.fedavgexit import FedAvgExit


@dataclass(frozen=True)
class FedProxExit(FedAvgExit):
    """FedProx whose clients leave when their training loss stands still, with a ``mu`` that adapts.

    Args:
        tolerance: As in FedAvgExit.
        weights: As in FedAvgExit.
        mu: Weight of the proximal term in the first round.
        adaptive: Let mu follow the training loss.
    """

    breaks: ClassVar[Facts] = {Fact.ONE_STEP: "has its own local steps"}
    receives: ClassVar[Declared] = {**FedAvgExit.receives, "mu": MU}

    mu: NonNegative = 1.0
    adaptive: bool = True

    def start(self, task: Task) -> State:
        return {**super().start(task), **initial_mu(self.mu, task.federation.clients)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        message = super().broadcast(server, ids)
        return Message({**message.shared, "mu": server["mu"]})

    def train(self, cohort: Cohort, message: Message) -> Tensor:
        return cohort.train_in_cycles(
            cohort.spread(message["row"]), proximal_cycle(cohort.lr, message["mu"]), loss=self.loss(message)
        )[0]

    def aggregate(self, server: State, replies: Replies) -> State:
        state = super().aggregate(server, replies)
        if not self.adaptive:
            return state
        weights = self.omega(replies.context)[torch.tensor(replies.ids)]
        return {**state, **adapt_mu(server, replies.ids, replies["loss"], weights / weights.sum())}


def proximal_cycle(lr: float, mu: Tensor) -> Cycle:
    """Steps of the local optimiser, each followed by a pull towards the received model outside of the optimiser.

    ``w <- w - min(lr mu, 1) (w_before - w_t)``: for SGD this is the step of FedProx.
    """
    share = (lr * mu).clamp(max=1)

    def settle(_: int, before: Tensor, after: Tensor, slots: Slots) -> tuple[Tensor, Slots]:
        return after - share * (before - slots[0]), slots

    return Cycle(lrs=(lr,), parts=(0,), settle=settle)
