"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.cycle import Cycle, Slots
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Replies
from fedloom.core.task import Task
from fedloom.methods.adaptive_mu import watched, watching
from fedloom.methods.fedavgexit import FedAvgExit


@dataclass(frozen=True)
class FedProxExit(FedAvgExit):
    """FedProx whose clients leave when their training loss stands still, with a ``mu`` that adapts.

    Tavakoli 2023, after Li et al. 2020: mu starts at ``mu``, grows by 0.1 when the weighted mean of the clients' losses
    rises and falls by 0.1 after five rounds in a row in which it fell. ``adaptive=false`` leaves it as it is.
    """

    mu: float = 1.0
    adaptive: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu < 0:
            raise FedloomError(f"mu={self.mu}: the proximal weight must not be negative.")

    @property
    def compiles(self) -> bool:
        return False

    def start(self, task: Task) -> State:
        return {**super().start(task), **watching(self.mu)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        message = super().broadcast(server, ids)
        return Message({**message.shared, "mu": server["mu"]})

    def trained(self, cohort: Cohort, message: Message) -> Tensor:
        return cohort.train_in_cycles(
            cohort.spread(message["row"]), held_near(cohort.lr, message["mu"]), loss=self.loss(message)
        )[0]

    def aggregate(self, server: State, replies: Replies) -> State:
        state = super().aggregate(server, replies)
        if not self.adaptive:
            return state
        weights = self.omega(replies.context)[torch.tensor(replies.ids)]
        return {**state, **watched(server, (weights * replies["loss"]).sum() / weights.sum())}


def held_near(lr: float, mu: Tensor) -> Cycle:
    """Steps of the local optimiser, each followed by a pull towards the received model that the optimiser never sees.

    ``w <- w - min(lr mu, 1) (w_before - w_t)``: for SGD this is the step of FedProx.
    """
    share = (lr * mu).clamp(max=1)

    def settle(_: int, before: Tensor, after: Tensor, slots: Slots) -> tuple[Tensor, Slots]:
        return after - share * (before - slots[0]), slots

    return Cycle(lrs=(lr,), parts=(0,), settle=settle)
