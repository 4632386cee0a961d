"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.methods.fedavg import FedAvg


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
