"""FedAdagrad: FedAvg with Adagrad on the server.

With ``d = sum_k p_k w_k - w``: ``v <- v + d^2``, ``w <- w + server_lr * d / (sqrt(v) + tau)``; v starts at tau^2.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2, https://arxiv.org/abs/2003.00295.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.settings import Positive
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedAdagrad(FedAvg):
    """FedAdagrad: FedAvg with Adagrad on the server.

    Args:
        server_lr: Learning rate of the server.
        tau: Added to the denominator; the smaller, the more adaptive.
    """

    server_lr: Positive = 0.1
    tau: Positive = 1e-3

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("adagrad", self.server_lr, tau=self.tau)
