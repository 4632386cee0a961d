"""FedProx's heuristic for mu: the proximal weight follows the training loss.

Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, section 5.3.2,
https://arxiv.org/abs/1812.06127: mu grows by 0.1 when the training loss rises, and falls by 0.1 after five rounds in a
row in which the loss fell. FedProx, FedProxExit and Fed-GALAp share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Scalar
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


def check_mu(mu: float) -> None:
    """Refuse a negative proximal weight."""
    if mu < 0:
        raise FedloomError(f"mu={mu}: the proximal weight must not be negative.")


def initial_mu(mu: float) -> State:
    """The server's state of the heuristic before the first round."""
    return {"mu": torch.tensor(mu), "loss": torch.tensor(torch.inf), "falls": torch.tensor(0)}


def adapt_mu(server: State, loss: Tensor) -> State:
    """The state of the heuristic after a round with this training loss."""
    fell = loss < server["loss"] < torch.inf  # the first round has no earlier loss
    falls = server["falls"] + 1 if fell else torch.tensor(0)
    mu = server["mu"] + 0.1 if loss > server["loss"] else server["mu"]
    if falls == 5:
        mu, falls = (mu - 0.1).clamp(min=0), torch.tensor(0)
    return {"mu": mu, "loss": loss, "falls": falls}


MU = Scalar("how near to the received model a site must stay")
LOSS = Scalar("mean loss on its training part")


@dataclass(frozen=True)
class AdaptiveMu(FedAvg):
    """FedAvg whose server adapts ``mu``, if ``adaptive`` says so, to the clients' loss under the model they receive."""

    receives: ClassVar[Declared] = {**FedAvg.receives, "mu": MU}
    sends: ClassVar[Declared] = {**FedAvg.sends, "loss": LOSS}

    mu: float
    adaptive: bool

    def start(self, task: Task) -> State:
        state = super().start(task)
        return {**state, **initial_mu(self.mu)} if self.adaptive else state

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({name: server[name] for name in ("row", "mu") if name in server})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        reply = super().client_update(cohort, message)
        if not self.adaptive:
            return reply
        loss = cohort.evaluate(cohort.spread(message["row"]), "train").mean_loss.float()
        return Reply({**reply.tensors, "loss": loss})

    def aggregate(self, server: State, replies: Replies) -> State:
        state = super().aggregate(server, replies)
        if not self.adaptive:
            return state
        return {**state, **adapt_mu(server, (replies.weights * replies["loss"]).sum())}
