"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedloom.methods.partial_sharing import Decoupled


@dataclass(frozen=True)
class LGFedAvg(Decoupled):
    """A shared head on personal bodies, trained together; a client predicts with its body and the new global head.

    Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global Representations, 2020.
    """

    shared: ClassVar[str] = "head"
    own: ClassVar[str | None] = "body"
