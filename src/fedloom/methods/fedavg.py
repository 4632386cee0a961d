"""FedAvg, and the same with a proximal term or a server optimiser.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017; Li et al.,
Federated Optimization in Heterogeneous Networks, MLSys 2020; Hsu et al., 2019 (FedAvgM); Reddi et al., Adaptive
Federated Optimization, ICLR 2021. Weights are normalised over the selected clients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.task import Task
from fedloom.training.stacked import Affine, Pull


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Clients train the shared model on their own data; the server takes the weighted mean of their models.

    McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    """

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Local training from the received model."""
        return Reply({"row": cohort.train(cohort.spread(message["row"]), pull=self.pull(message))})

    def pull(self, message: Message) -> Pull | None:
        """What a variant adds to the gradient rows; FedAvg adds nothing."""
        return None


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


def watching(mu: float) -> State:
    """What the server remembers where mu adapts to the training loss."""
    return {"mu": torch.tensor(mu), "loss": torch.tensor(torch.inf), "falls": torch.tensor(0)}


def watched(server: State, loss: Tensor) -> State:
    """FedProx's heuristic: mu grows by 0.1 when the loss rises, and falls by 0.1 after five falls in a row."""
    fell = loss < server["loss"] < torch.inf  # the first round has nothing to fall from
    falls = server["falls"] + 1 if fell else torch.tensor(0)
    mu = server["mu"] + 0.1 if loss > server["loss"] else server["mu"]
    if falls == 5:
        mu, falls = (mu - 0.1).clamp(min=0), torch.tensor(0)
    return {"mu": mu, "loss": loss, "falls": falls}


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvg with momentum on the server.

    Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification, 2019. With server_lr = 1 and momentum = 0 this is FedAvg.
    """

    server_lr: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _ = self.server  # refuses impossible settings

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("sgd", self.server_lr, self.momentum)


@dataclass(frozen=True)
class FedAdagrad(FedAvg):
    """FedAvg with Adagrad on the server. Reddi et al., Adaptive Federated Optimization, ICLR 2021."""

    server_lr: float = 0.1
    tau: float = 1e-3

    def __post_init__(self) -> None:
        _ = self.server

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("adagrad", self.server_lr, tau=self.tau)


@dataclass(frozen=True)
class FedAdam(FedAvg):
    """FedAvg with Adam on the server. Reddi et al., Adaptive Federated Optimization, ICLR 2021."""

    server_lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        _ = self.server

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("adam", self.server_lr, self.beta1, self.beta2, self.tau)


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedAvg with Yogi on the server. Reddi et al., Adaptive Federated Optimization, ICLR 2021."""

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("yogi", self.server_lr, self.beta1, self.beta2, self.tau)
