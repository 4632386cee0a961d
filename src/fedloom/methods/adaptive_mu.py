"""FedProx's heuristic for mu: the proximal weight follows the training loss.

Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, section 5.3.2,
https://arxiv.org/abs/1812.06127: mu grows by 0.1 when the training loss rises, and falls by 0.1 after five rounds in a
row in which the loss fell. FedProx, FedProxExit and Fed-GALAp share it.

The paper's loss is that of all clients. The server hears only of those that take part, and clients differ in their
losses: rounds with different clients cannot be compared. So each client's loss is compared with its own last one; a
client that was not selected, or has left, keeps its last loss. A round of clients that are all new changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Scalar
from fedloom.core.facts import Fact
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg


def initial_mu(mu: float, clients: int) -> State:
    """The server's state of the heuristic before the first round; ``losses`` are the clients' last ones."""
    return {"mu": torch.tensor(mu), "losses": torch.full((clients,), torch.inf), "falls": torch.tensor(0)}


def adapt_mu(server: State, ids: list[int], losses: Tensor, weights: Tensor) -> State:
    """The state of the heuristic after a round in which these clients had these training losses."""
    mu, falls, places = server["mu"], server["falls"], torch.tensor(ids)
    last = server["losses"][places]
    known = last < torch.inf
    if known.any():
        now, before = (weights[known] * losses[known]).sum(), (weights[known] * last[known]).sum()
        falls = falls + 1 if now < before else torch.tensor(0)
        mu = mu + 0.1 if now > before else mu
    if falls == 5:
        mu, falls = (mu - 0.1).clamp(min=0), torch.tensor(0)
    return {"mu": mu, "losses": server["losses"].index_copy(0, places, losses), "falls": falls}


MU = Scalar("how near to the received model a site must stay")
LOSS = Scalar("mean loss on its training part")


@dataclass(frozen=True)
class AdaptiveMu(FedAvg):
    """FedAvg whose server adapts ``mu``, if ``adaptive`` says so, to the clients' loss under the model they receive."""

    receives: ClassVar[Declared] = {**FedAvg.receives, "mu": MU}

    mu: NonNegative
    adaptive: bool

    @property
    def sends(self) -> Declared:  # type: ignore[override]  # an adapted mu needs each client's loss
        return {**FedAvg.sends, "loss": LOSS} if self.adaptive else FedAvg.sends

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]
        return () if self.adaptive else (Fact.ONLY_MEANS, Fact.ONLY_TRAINING)

    def start(self, task: Task) -> State:
        state = super().start(task)
        return {**state, **initial_mu(self.mu, task.federation.clients)} if self.adaptive else state

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
        return {**state, **adapt_mu(server, replies.ids, replies["loss"], replies.weights)}
