"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.pull import Affine, Pull
from fedloom.core.task import Task
from fedloom.methods.adaptive_mu import watched, watching
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose clients are held near the model they received.

    Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020. Local objective:
    ``F_k(w) + mu/2 * ||w - w_t||^2``. With mu = 0 this is FedAvg. ``adaptive`` is the paper's heuristic: mu grows
    by 0.1 when the training loss rises and falls by 0.1 after five rounds in a row in which it fell. Clients that
    only did part of their work (``local.partial``) count like everybody else.
    """

    mu: float = 0.01
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.mu < 0:
            raise FedloomError(f"mu={self.mu}: the proximal weight must not be negative.")

    def pull(self, message: Message) -> Pull:
        mu = message["mu"] if self.adaptive else self.mu
        return Affine(lambda rows, received: mu * (rows - received))

    def start(self, task: Task) -> State:
        state = {"row": task.initial_row()}
        return {**state, **watching(self.mu)} if self.adaptive else state

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({name: server[name] for name in ("row", "mu") if name in server})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        reply = super().client_update(cohort, message)
        if not self.adaptive:
            return reply
        loss = cohort.evaluate(cohort.spread(message["row"]), "train").mean_loss.float()
        return Reply({**reply.tensors, "loss": loss})

    def aggregate(self, server: State, replies: Replies) -> State:
        state = {**server, "row": replies.mean("row")}
        if not self.adaptive:
            return state
        return {**state, **watched(server, (replies.weights * replies["loss"]).sum())}
