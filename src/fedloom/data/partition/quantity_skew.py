"""Quantity skew: clients that hold different numbers of samples, by a list or by a power law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import MinLen

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count, NonNegative
from fedloom.data.partition.base import Partition


def _assign_sizes(sizes: np.ndarray, samples: int, random: np.random.Generator) -> np.ndarray:
    owners = np.full(samples, -1, dtype=np.int64)
    owners[random.permutation(samples)[: sizes.sum()]] = np.repeat(np.arange(len(sizes)), sizes)
    return owners


@dataclass(frozen=True)
class Quantities(Partition):
    """Quantity skew by a list: client k gets ``sizes[k]`` random samples; the rest belong to no client."""

    sizes: Annotated[tuple[Count, ...], MinLen(1)]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))

    def count(self, labels: np.ndarray, clients: int | None, natural: np.ndarray | None) -> int:
        if clients not in (None, len(self.sizes)):
            raise FedloomError(f"clients={clients}, but the list of quantities names {len(self.sizes)} sizes.")
        return len(self.sizes)

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        if sum(self.sizes) > len(labels):
            raise FedloomError(f"the quantities add up to {sum(self.sizes)}, more than the {len(labels)} samples.")
        return _assign_sizes(np.array(self.sizes), len(labels), numpy_generator(seed, "partition"))


@dataclass(frozen=True)
class PowerLaw(Partition):
    """Quantity skew: the r-th largest client's size falls as r^-exponent, with at least ``minimum`` samples each."""

    exponent: NonNegative = 1.0
    minimum: Count = 2

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        random = numpy_generator(seed, "partition")
        floor = min(self.minimum, len(labels) // clients)
        weights = np.arange(1, clients + 1, dtype=np.float64) ** -self.exponent
        exact = (len(labels) - floor * clients) * weights / weights.sum()
        sizes = np.floor(exact).astype(np.int64)
        left = len(labels) - floor * clients - int(sizes.sum())
        sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
        return _assign_sizes(random.permutation(sizes + floor), len(labels), random)
