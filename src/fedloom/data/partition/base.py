"""Partitioners: how the samples of one data set become the samples of many clients.

A partitioner is called with the labels, the number of clients, a seed and, where the data have one, a natural key per
sample. It returns the sorted positions of each client; a sample belongs to at most one client. Subclasses of
``Partition`` only say who owns each sample (one number per sample, -1 for no client), so a hundred thousand clients are
one vector.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import torch

from fedloom.core.errors import FedloomError
from fedloom.core.settings import check_settings
from fedloom.core.targets import target_kind


class Partitioner(Protocol):
    """Divides samples among clients: called with the labels, it returns each client's positions."""

    def __call__(
        self, labels: np.ndarray, clients: int | None, seed: int, natural: np.ndarray | None = None, /
    ) -> list[np.ndarray]: ...


class Partition(ABC):
    """Base class: checks the request, asks the subclass for the owners, and packs them into sorted lists."""

    def __post_init__(self) -> None:
        check_settings(self)

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
        """The client of each sample (-1 for no client) and the number of clients, after checking the request."""
        count = self.count(labels, clients, natural)
        if count < 1:
            raise FedloomError(f"clients={count}: a federation needs at least one client.")
        if count > len(labels):
            raise FedloomError(
                f"clients={count} is more than the {len(labels)} samples to share: use at most {len(labels)} clients."
            )
        return self.owners(labels, count, seed, natural).astype(np.int32, copy=False), count

    def count(self, labels: np.ndarray, clients: int | None, natural: np.ndarray | None) -> int:
        """How many clients the partition makes when the user asks for ``clients``."""
        if clients is None:
            raise FedloomError("the number of clients is missing: set it, for example clients=20.")
        return clients

    @abstractmethod
    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        """The client of each sample, or -1."""


SEQUENCES = "sequences or differ within groups that stay together"


def single_labels(labels: np.ndarray, name: str) -> np.ndarray:
    """The labels, or an error if they are not one number per sample."""
    kind = target_kind(torch.from_numpy(labels))
    if kind != "classes":
        what = {"number": "numbers", "labels": "several labels each", "tokens": SEQUENCES}[kind]
        raise FedloomError(
            f"the partition '{name}' needs one label per sample, but these targets are {what}: use iid, power-law or "
            "natural."
        )
    return labels


def order_by_label(labels: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Positions sorted by label, in random order within a label."""
    shuffled = random.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]
