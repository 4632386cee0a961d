"""LG-FedAvg: a shared head on personal bodies, trained together.

``head <- sum_k p_k head_k``; each client keeps its body_k, and predicts with it and the new global head.

Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global Representations, 2020,
https://arxiv.org/abs/2001.01523. It has no settings. The authors' code does not weight clients; means here are weighted
as the run says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedloom.methods.partial_sharing import PartialSharing


@dataclass(frozen=True)
class LGFedAvg(PartialSharing):
    """A shared head on personal bodies, trained together."""

    shared: ClassVar[str] = "head"
    own: ClassVar[str | None] = "body"
