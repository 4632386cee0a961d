"""FedPer: a shared body under personal heads, trained together.

``body <- sum_k p_k body_k``; each client keeps its head_k.

Arivazhagan et al., Federated Learning with Personalization Layers, 2019, https://arxiv.org/abs/1912.00818. It has no
settings. What all methods with a shared part have in common is in ``partial_sharing``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.methods.partial_sharing import PartialSharing


@dataclass(frozen=True)
class FedPer(PartialSharing):
    """A shared body under personal heads, trained together."""
