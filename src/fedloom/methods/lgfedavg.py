"""LG-FedAvg: a shared head on personal bodies, trained together.

``head <- sum_k p_k head_k``; each client keeps its body_k, and predicts with it and the new global head.

Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global Representations, 2020,
https://arxiv.org/abs/2001.01523. It has no settings. The authors' code does not weight clients; means here are weighted
as the run says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.declarations import Declared, Model, columns_of_part
from fedloom.core.facts import Fact
from fedloom.methods.partial_sharing import PartialSharing


@dataclass(frozen=True)
class LGFedAvg(PartialSharing):
    """A shared head on personal bodies, trained together."""

    receives: ClassVar[Declared] = {"head": Model("the model's head", columns=columns_of_part("head"))}
    sends: ClassVar[Declared] = {"head": Model("the head that the site trained", columns=columns_of_part("head"))}
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    shared: ClassVar[str] = "head"
    own: ClassVar[str | None] = "body"
