"""Natural clients: samples are divided by a key that the data themselves have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count
from fedloom.data.partition.base import Partition


@dataclass(frozen=True)
class Natural(Partition):
    """By the data's own key (writer, role, subject, user, client column), for keys with ``minimum`` samples or more.

    With fewer clients than keys, keys are chosen at random; samples of the others belong to no client.
    """

    minimum: Count = 1

    def _eligible(self, natural: np.ndarray | None) -> np.ndarray:
        if natural is None:
            raise FedloomError(
                "the partition 'natural' needs a client key per sample, but these data have none: use iid or dirichlet."
            )
        return np.flatnonzero(np.bincount(natural) >= max(1, self.minimum))

    def count(self, labels: np.ndarray, clients: int | None, natural: np.ndarray | None) -> int:
        found = len(self._eligible(natural))
        if found == 0:
            raise FedloomError(f"no natural client has {self.minimum} samples: lower the minimum.")
        if clients is not None and clients > found:
            raise FedloomError(
                f"clients={clients}, but only {found} natural clients have at least {self.minimum} samples: "
                f"use at most {found} clients or lower the minimum."
            )
        return found if clients is None else clients

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        eligible = self._eligible(natural)
        chosen = np.sort(numpy_generator(seed, "partition").permutation(eligible)[:clients])
        client_of = np.full(int(eligible.max()) + 1, -1, dtype=np.int64)
        client_of[chosen] = np.arange(clients)
        keys = np.asarray(natural)
        return np.where(keys < len(client_of), client_of[np.minimum(keys, len(client_of) - 1)], -1)
