"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.methods.fedavg import FedAvg


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
