"""Centralised: all clients' training data in one place, trained by one client.

``w <- train(w)`` on all training data together. The upper baseline: what a federation would like to reach. Clients that
are new (held out of training) do not give their data. There is no paper, and it has no settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedloom.core.task import FederationView
from fedloom.methods.fedavg import FedAvg


@dataclass(frozen=True)
class Centralised(FedAvg):
    """All clients' training data in one place, trained by one client."""

    communicates: ClassVar[bool] = False

    def trains_on(self, federation: FederationView, new: Sequence[int]) -> FederationView:
        return federation.as_one_client(new)
