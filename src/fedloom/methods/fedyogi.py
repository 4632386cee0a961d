"""FedYogi: FedAvg with Yogi on the server.

As FedAdam, but ``v <- v - (1 - beta2) d^2 sign(v - d^2)``: v changes by at most a share of d^2. Settings: as FedAdam.

Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2, https://arxiv.org/abs/2003.00295.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.methods.fedadam import FedAdam


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedYogi: FedAvg with Yogi on the server.

    Args:
        server_lr: Learning rate of the server.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        tau: Added to the denominator; the smaller, the more adaptive.
    """

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("yogi", self.server_lr, self.beta1, self.beta2, self.tau)
