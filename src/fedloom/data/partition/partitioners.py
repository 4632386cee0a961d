"""Partitioners: how the samples of one data set become the samples of many clients.

A partitioner is called with the labels, the number of clients, a seed and, where the data know it, a natural key per
sample; it answers with the positions of each client, sorted, every sample at most once. Inside, each one only says
who owns which sample (one number per sample, -1 for nobody), so a hundred thousand clients are one vector.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator


class Partitioner(Protocol):
    """Anything that divides samples: called with labels, it gives each client's positions."""

    def __call__(
        self, labels: np.ndarray, clients: int | None, seed: int, natural: np.ndarray | None = None, /
    ) -> list[np.ndarray]: ...


class Partition(ABC):
    """The common frame: check the request, ask for the owners, and pack them into sorted lists."""

    def __call__(
        self, labels: np.ndarray, clients: int | None, seed: int, natural: np.ndarray | None = None
    ) -> list[np.ndarray]:
        owners, count = self.divide(labels, clients, seed, natural)
        order = np.argsort(owners, kind="stable")
        ends = np.searchsorted(owners[order], np.arange(count + 1))
        return [order[a:b] for a, b in itertools.pairwise(ends)]

    def divide(
        self, labels: np.ndarray, clients: int | None, seed: int, natural: np.ndarray | None = None
    ) -> tuple[np.ndarray, int]:
        """The client of each sample (-1 for nobody) and the number of clients, after checking the request."""
        count = self.count(labels, clients, natural)
        if count < 1:
            raise FedloomError(f"clients={count}: a federation needs at least one client.")
        if count > len(labels):
            raise FedloomError(
                f"clients={count} is more than the {len(labels)} samples to share: use at most {len(labels)} clients."
            )
        return self.owners(labels, count, seed, natural).astype(np.int32, copy=False), count

    def count(self, labels: np.ndarray, clients: int | None, natural: np.ndarray | None) -> int:
        """How many clients there will be when ``clients`` were asked for."""
        if clients is None:
            raise FedloomError("the number of clients is missing: say how many share the data, for example clients=20.")
        return clients

    @abstractmethod
    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        """The client of each sample, or -1."""


def one_label_each(labels: np.ndarray, name: str) -> np.ndarray:
    """The labels, once it is sure that they are one number per sample."""
    if labels.ndim != 1:
        raise FedloomError(
            f"the partition '{name}' needs one label per sample and these targets are sequences: "
            "use iid, power-law, quantities or natural."
        )
    return labels


def by_label(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Positions sorted by label, in random order within a label."""
    shuffled = random.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


@dataclass(frozen=True)
class Iid(Partition):
    """Equal random shares; stratified shares also hold the classes in equal parts."""

    stratified: bool = False

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        random = numpy_generator(seed, "partition")
        deal = by_label(one_label_each(labels, "iid"), random) if self.stratified else random.permutation(len(labels))
        owners = np.empty(len(labels), dtype=np.int64)
        owners[deal] = np.arange(len(labels)) % clients
        return owners


def _deal_sizes(sizes: np.ndarray, samples: int, random: np.random.Generator) -> np.ndarray:
    owners = np.full(samples, -1, dtype=np.int64)
    owners[random.permutation(samples)[: sizes.sum()]] = np.repeat(np.arange(len(sizes)), sizes)
    return owners


@dataclass(frozen=True)
class Quantities(Partition):
    """Quantity skew by a list: client k gets ``sizes[k]`` random samples; what is left over belongs to nobody."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        if not self.sizes or min(self.sizes) < 1:
            raise FedloomError("quantities: give a list of sizes, each at least 1, one per client.")

    def count(self, labels: np.ndarray, clients: int | None, natural: np.ndarray | None) -> int:
        if clients not in (None, len(self.sizes)):
            raise FedloomError(f"clients={clients}, but the list of quantities names {len(self.sizes)} sizes.")
        return len(self.sizes)

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        if sum(self.sizes) > len(labels):
            raise FedloomError(f"the quantities add up to {sum(self.sizes)}, more than the {len(labels)} samples.")
        return _deal_sizes(np.array(self.sizes), len(labels), numpy_generator(seed, "partition"))


@dataclass(frozen=True)
class PowerLaw(Partition):
    """Quantity skew: the r-th largest client's size falls as r^-exponent, with at least ``minimum`` samples each."""

    exponent: float = 1.0
    minimum: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.exponent < float("inf") or self.minimum < 1:
            raise FedloomError(
                f"exponent={self.exponent}, minimum={self.minimum}: the exponent is a number from 0 up "
                "and the minimum at least 1."
            )

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        random = numpy_generator(seed, "partition")
        floor = min(self.minimum, len(labels) // clients)
        weights = np.arange(1, clients + 1, dtype=np.float64) ** -self.exponent
        exact = (len(labels) - floor * clients) * weights / weights.sum()
        sizes = np.floor(exact).astype(np.int64)
        left = len(labels) - floor * clients - int(sizes.sum())
        sizes[np.argsort(sizes - exact, kind="stable")[:left]] += 1
        return _deal_sizes(random.permutation(sizes + floor), len(labels), random)


@dataclass(frozen=True)
class Natural(Partition):
    """By the data's own key (writer, role, subject, user, client column), for keys with ``minimum`` samples or more.

    With fewer clients than keys, a random choice of the keys takes part; the others' samples belong to nobody.
    """

    minimum: int = 1

    def _eligible(self, natural: np.ndarray | None) -> np.ndarray:
        if natural is None:
            raise FedloomError(
                "the partition 'natural' needs a client key per sample and these data have none: use iid or dirichlet."
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
