"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.aggregation.server_optimizer import ServerOptimizer
from fedloom.methods.fedadam import FedAdam


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedAvg with Yogi on the server. Reddi et al., Adaptive Federated Optimization, ICLR 2021."""

    @property
    def server(self) -> ServerOptimizer:
        return ServerOptimizer("yogi", self.server_lr, self.beta1, self.beta2, self.tau)
