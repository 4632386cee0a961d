"""FedAvgM: FedAvg with momentum on the server.

With ``d = sum_k p_k w_k - w``: ``m <- momentum * m + d``, ``w <- w + server_lr * m``. With server_lr = 1 and
momentum = 0 this is FedAvg.

Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification, 2019,
https://arxiv.org/abs/1909.06335.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.settings import Positive, ShareBelowOne
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvgM: FedAvg with momentum on the server.

    Args:
        server_lr: Learning rate of the server.
        momentum: Momentum of the server.
    """

    server_lr: Positive = 1.0
    momentum: ShareBelowOne = 0.9

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("sgd", self.server_lr, self.momentum)
