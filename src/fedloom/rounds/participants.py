"""The clients who may take part in a round, how many samples each of them has, and with how many it counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedloom.core.task import FederationView

Weighting = Callable[[Tensor, Tensor], Tensor]
"""``weigh(samples, steps)``: the weights of some clients, which sum to one."""


@dataclass(frozen=True)
class Participants:
    """The clients who may take part in a round, as long as the federation stays as it is."""

    federation: FederationView
    """The federation that is trained on."""
    clients: Sequence[int]
    """A range where nobody is held out of training."""
    weigh: Weighting
    counted: Tensor
    """The number of training samples that every client of the federation counts with."""

    @cached_property
    def samples(self) -> Tensor:
        """The number of training samples that each of these clients counts with."""
        return self._of_clients(self.counted)

    @property
    def sizes(self) -> Tensor:
        """The number of training samples that each of these clients has."""
        return self._of_clients(self.federation.train.sizes)

    def _of_clients(self, values: Tensor) -> Tensor:
        return values if isinstance(self.clients, range) else values[torch.tensor(self.clients)]

    @cached_property
    def shares(self) -> Tensor:
        """The weight of every client of the federation among all who may take part; 0 for those who may not."""
        among = self.weigh(self.samples, torch.ones_like(self.samples))
        if isinstance(self.clients, range):
            return among
        return torch.zeros(self.federation.clients).index_copy(0, torch.tensor(self.clients), among)
