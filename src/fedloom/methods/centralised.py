"""TODO: docstring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.task import FederationView
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class Centralised(FedAvg):
    """All clients' training data in one place, trained as one client: what federation would like to reach."""

    communicates: ClassVar[bool] = False

    def trains_on(self, federation: FederationView, new: Sequence[int]) -> FederationView:
        return federation.as_one_client(new)
