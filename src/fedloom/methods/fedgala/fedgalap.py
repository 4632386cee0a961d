"""Fed-GALAp: Fed-GALA with FedProx's proximal term in both phases and an adaptive mu.

Beside every local step ``w_k <- w_k - min(lr mu, 1) (w_k - w)``.

Tavakoli 2023 (a thesis; no public link known). ``adaptive_mu`` has the heuristic for mu, ``fedproxexit`` the form of
the proximal term. The heuristic starts again with phase 3, whose loss is another one; mu stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.algorithm import State
from fedloom.methods.adaptive_mu import initial_mu
from fedloom.methods.fedgala.fedgala import FedGala
from fedloom.methods.fedproxexit import FedProxExit


@dataclass(frozen=True)
class FedGalaP(FedGala, FedProxExit):
    """Fed-GALA with FedProx's proximal term in both phases and an adaptive ``mu``.

    Args:
        tolerance: As in FedGala.
        weights: As in FedGala.
        mu: As in FedProxExit.
        adaptive: As in FedProxExit.
        first_tolerance: As in FedGala.
        augment: As in FedGala.
    """

    def task_phase_state(self, server: State) -> State:
        return {**initial_mu(self.mu, len(server["losses"])), "mu": server["mu"]}
