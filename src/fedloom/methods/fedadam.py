"""FedAdam: FedAvg with Adam on the server.

With ``d = sum_k p_k w_k - w``: ``m <- beta1 m + (1 - beta1) d``, ``v <- beta2 v + (1 - beta2) d^2``,
``w <- w + server_lr * m / (sqrt(v) + tau)``; v starts at tau^2, and there is no bias correction.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2, https://arxiv.org/abs/2003.00295.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.core.settings import Positive, ShareBelowOne
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class FedAdam(FedAvg):
    """FedAdam: FedAvg with Adam on the server.

    Args:
        server_lr: Learning rate of the server.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        tau: Added to the denominator; the smaller, the more adaptive.
    """

    server_lr: Positive = 0.01
    beta1: ShareBelowOne = 0.9
    beta2: ShareBelowOne = 0.99
    tau: Positive = 1e-3

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("adam", self.server_lr, self.beta1, self.beta2, self.tau)
