"""FedProx: FedAvg with a proximal term that holds clients near the model they received.

Local objective: ``F_k(w) + mu/2 * ||w - w_t||^2``, whose extra gradient is ``mu * (w - w_t)``. With mu = 0 this is
FedAvg. ``adaptive`` is the paper's heuristic for mu (see ``adaptive_mu``).

Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, https://arxiv.org/abs/1812.06127. Clients that
did only part of their work (``local.partial``) count like all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.message import Message
from fedloom.core.pull import Affine, Pull
from fedloom.core.settings import NonNegative
from fedloom.methods.adaptive_mu import AdaptiveMu


@dataclass(frozen=True)
class FedProx(AdaptiveMu):
    """FedAvg with a proximal term that holds clients near the model they received.

    Args:
        mu: Weight of the proximal term; 0 is FedAvg.
        adaptive: Let mu start at ``mu`` and follow the training loss.
    """

    mu: NonNegative = 0.01
    adaptive: bool = False

    def pull(self, message: Message) -> Pull:
        mu = message["mu"] if self.adaptive else self.mu
        return Affine(lambda rows, received: mu * (rows - received))
