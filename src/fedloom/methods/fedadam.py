"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.methods.fedavg import FedAvg


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
