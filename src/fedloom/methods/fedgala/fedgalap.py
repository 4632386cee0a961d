"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.algorithm import State
from fedloom.methods.adaptive_mu import watching
from fedloom.methods.fedgala.fedgala import FedGala
from fedloom.methods.fedproxexit import FedProxExit


@dataclass(frozen=True)
class FedGalaP(FedGala, FedProxExit):
    """Fed-GALA with FedProx's proximal term in both phases and an adaptive ``mu``. Tavakoli 2023."""

    def begun(self) -> State:
        return {name: value for name, value in watching(self.mu).items() if name != "mu"}  # another loss is watched
