"""Label skew: clients that see some classes more than others.

Dirichlet shares follow Hsu et al. 2019 and Wang et al. 2020 (FedMA) with the size cap of their code. Zeroing the closed
clients' shares and renormalising is the same as drawing a Dirichlet over the open ones, which is what we do: it never
divides by zero. The fewer clients are open, the more concentrated is the class that is divided; so classes are divided
in a random order, where their code has the last label always the most concentrated. Shards are McMahan et al. 2017.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count, NonNegative
from fedloom.data.partition.base import Partition, order_by_label, single_labels


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Label skew: each class is divided by shares from Dir(alpha). A small alpha is a strong skew, 0 one class each.

    A draw in which some client has fewer than ``minimum`` samples (or half the mean, if that is less) is repeated.
    When ``tries`` draws are not enough, which is usual for many clients and a small alpha, the draw with the largest
    smallest client is filled up: each client below the minimum takes samples from the largest client's largest class.
    ``most_even`` always makes all draws and takes the one whose sizes differ least (FedSeq, Rizzardi 2022).
    ``class_order="label"`` divides classes in the order of their labels, as Fedloom did up to 0.5.
    """

    alpha: NonNegative
    minimum: Count = 10
    tries: Count = 100
    most_even: bool = False
    class_order: Literal["random", "label"] = "random"

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        labels = single_labels(labels, "dirichlet")
        random = numpy_generator(seed, "partition")
        order = order_by_label(labels, random)
        owners = np.empty(len(labels), dtype=np.int64)
        if self.alpha == 0:
            shards = np.arange(len(labels)) * clients // len(labels)
            owners[order] = random.permutation(clients)[shards]
            return owners
        totals = np.bincount(labels)
        table = self.table(totals, clients, random)
        owners[order] = np.concatenate([np.repeat(np.arange(clients), column) for column in table.T])
        return owners

    def table(self, totals: np.ndarray, clients: int, random: np.random.Generator) -> np.ndarray:
        """How many samples of each class each client gets, as a clients × classes table."""
        floor = min(self.minimum, max(1, int(totals.sum()) // (2 * clients)))
        tries = max(1, min(self.tries, 2_000_000 // (clients * len(totals))))  # a fixed rule, so that 10^5 clients work
        best = self._draw(totals, clients, random)
        for _ in range(tries - 1):
            if not self.most_even and best.sum(1).min() >= floor:
                break
            best = max(best, self._draw(totals, clients, random), key=self._quality)
        _fill_to_minimum(best, floor)
        return best

    def _quality(self, table: np.ndarray) -> float:
        sizes = table.sum(1)
        return -float(sizes.std()) if self.most_even else float(sizes.min())

    def _draw(self, totals: np.ndarray, clients: int, random: np.random.Generator) -> np.ndarray:
        table = np.zeros((clients, len(totals)), dtype=np.int64)
        sizes = np.zeros(clients, dtype=np.int64)
        classes = np.flatnonzero(totals)
        for label in classes if self.class_order == "label" else random.permutation(classes):
            still_open = np.flatnonzero(sizes < totals.sum() / clients)
            share = random.dirichlet(np.full(len(still_open), self.alpha))
            cuts = np.floor(np.cumsum(share) * totals[label] + 1e-9).astype(np.int64)
            cuts[-1] = totals[label]
            table[still_open, label] = np.diff(cuts, prepend=0)
            sizes += table[:, label]
        return table


def _fill_to_minimum(table: np.ndarray, floor: int) -> None:
    """Bring every row of a clients × classes table to ``floor`` samples, in place, taking from the largest rows."""
    sizes = table.sum(1)
    rich = [(-int(size), client) for client, size in enumerate(sizes) if size > floor]
    heapq.heapify(rich)
    for poor in np.flatnonzero(sizes < floor):
        missing = floor - int(sizes[poor])
        while missing:
            size, donor = heapq.heappop(rich)
            label = int(table[donor].argmax())
            moved = min(missing, -size - floor, int(table[donor, label]))
            table[donor, label] -= moved
            table[poor, label] += moved
            missing -= moved
            if -size - moved > floor:
                heapq.heappush(rich, (size + moved, donor))


@dataclass(frozen=True)
class Shards(Partition):
    """Pathological skew: sort by label, cut equal shards, deal each client ``per_client`` of them at random."""

    per_client: Count = 2

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        shards = clients * self.per_client
        if shards > len(labels):
            raise FedloomError(
                f"{clients} clients × {self.per_client} shards are more than the {len(labels)} samples: use fewer."
            )
        random = numpy_generator(seed, "partition")
        order = order_by_label(single_labels(labels, "shards"), random)
        holder = random.permutation(shards) % clients
        owners = np.empty(len(labels), dtype=np.int64)
        owners[order] = holder[np.arange(len(labels)) * shards // len(labels)]
        return owners


@dataclass(frozen=True)
class ClassesPerClient(Partition):
    """Each client holds exactly ``per_client`` classes, and each class is shared equally by those who hold it."""

    per_client: Count = 2

    def owners(self, labels: np.ndarray, clients: int, seed: int, natural: np.ndarray | None) -> np.ndarray:
        totals = np.bincount(single_labels(labels, "classes-per-client"))
        present = np.flatnonzero(totals)
        if self.per_client > len(present):
            raise FedloomError(f"per_client={self.per_client}: the data hold only {len(present)} classes.")
        random = numpy_generator(seed, "partition")
        order = order_by_label(labels, random)
        starts = np.cumsum(totals) - totals
        wheel = random.permutation(present)  # neighbours on the wheel are distinct, so are a client's classes
        turns = random.permutation(clients)[:, None] * self.per_client + np.arange(self.per_client)
        held = wheel[turns % len(wheel)]
        owners = np.full(len(labels), -1, dtype=np.int64)
        for label in present:
            holders = np.flatnonzero((held == label).any(1))
            if len(holders) > totals[label]:
                raise FedloomError(
                    f"class {label} has {totals[label]} samples for the {len(holders)} clients that hold it: "
                    "use fewer clients or fewer classes per client."
                )
            if len(holders):
                mine = order[starts[label] : starts[label] + totals[label]]
                owners[mine] = holders[np.arange(len(mine)) % len(holders)]
        return owners
