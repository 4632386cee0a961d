"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.methods.partial_sharing import Decoupled


@dataclass(frozen=True)
class FedPer(Decoupled):
    """A shared body under personal heads, trained together.

    Arivazhagan et al., Federated Learning with Personalization Layers, 2019.
    """
