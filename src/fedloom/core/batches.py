"""Which samples a client sees, step by step.

A client's batches come from generators keyed by the run's seed, the round and the client: they are the same
whoever trains beside it. Steps of different clients are independent, so a cohort may take them in any interleaving:
within an epoch all full batches come first (the clients that still have one are a prefix of the cohort), then the
partial last batches in buckets of similar size. That is how a cohort of unequal clients wastes almost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.seeds import generator
from fedloom.core.work import LocalWork

PADDING = 0.25
"""A bucket holds partial batches whose sizes differ by at most this share of the largest."""


@dataclass(frozen=True)
class Assignment:
    """One client's samples (positions in the columns), how many steps it makes, and its own order generator."""

    client: int
    positions: Tensor
    steps: int
    batch_size: int
    order: torch.Generator

    @staticmethod
    def of(client: int, positions: Tensor, work: LocalWork, seed: int, round_number: int) -> Assignment:
        """A client's work in a round; a straggler (``work.partial``) makes only some of its steps."""
        steps = work.steps_for(len(positions))
        if work.partial and steps > 1:
            luck = generator(seed, "partial", round_number, client)
            if float(torch.rand((), generator=luck)) < work.partial:
                steps = int(torch.randint(1, steps + 1, (), generator=luck))
        size = work.batch_size or len(positions)
        return Assignment(client, positions, steps, size, generator(seed, "order", round_number, client))

    @property
    def epochs(self) -> int:
        """How many times the data are gone through, the last time perhaps not to its end."""
        return math.ceil(self.steps / math.ceil(len(self.positions) / self.batch_size))

    def epoch(self, number: int) -> Tensor:
        """The positions of an epoch in the order in which they are seen. Epochs must be asked for in turn."""
        order = self.positions[torch.randperm(len(self.positions), generator=self.order)]
        per_epoch = math.ceil(len(self.positions) / self.batch_size)
        return order[: (self.steps - number * per_epoch) * self.batch_size]

    def __iter__(self) -> Iterator[Tensor]:
        for number in range(self.epochs):
            yield from self.epoch(number).split(self.batch_size)


@dataclass(frozen=True)
class Step:
    """One step of some clients of a cohort: their places in it, the samples, and what is padding.

    ``rows`` is a prefix length when the clients are the first of the cohort, else a list of places.
    ``positions`` is clients × batch; ``mask`` is None when no sample is padding.
    """

    rows: int | Tensor
    positions: Tensor
    mask: Tensor | None


def interleaved(work: Sequence[Assignment]) -> Iterator[Step]:
    """The steps of a whole cohort, sorted by size (largest first), as few and as full as possible."""
    for number in range(max((one.epochs for one in work), default=0)):
        orders = {k: one.epoch(number) for k, one in enumerate(work) if number < one.epochs}
        yield from _full(work, orders)
        yield from _partial(work, orders)


def _full(work: Sequence[Assignment], orders: dict[int, Tensor]) -> Iterator[Step]:
    size = work[0].batch_size
    counts = {k: len(order) // size for k, order in orders.items() if work[k].batch_size == size}
    counts = {k: count for k, count in counts.items() if count}
    if not counts:
        return
    wide = torch.zeros(len(work), max(counts.values()) * size, dtype=torch.int64)
    for k, count in counts.items():
        wide[k, : count * size] = orders[k][: count * size]
    for s in range(max(counts.values())):
        places = _places([k for k, count in counts.items() if count > s])
        batch = wide[:, s * size : (s + 1) * size]
        yield Step(places, batch[:places] if isinstance(places, int) else batch[places], None)


def _partial(work: Sequence[Assignment], orders: dict[int, Tensor]) -> Iterator[Step]:
    """The batches that are smaller than the cohort's batch size: last ones, and all of ``batch_size=0``."""
    size = work[0].batch_size
    rests = [
        (k, order if work[k].batch_size != size else order[len(order) // size * size :]) for k, order in orders.items()
    ]
    rests = sorted(((k, rest) for k, rest in rests if len(rest)), key=lambda kr: (-len(kr[1]), kr[0]))
    while rests:
        largest = len(rests[0][1])
        bucket = sorted(kr for kr in rests if len(kr[1]) >= (1 - PADDING) * largest)
        rests = [kr for kr in rests if len(kr[1]) < (1 - PADDING) * largest]
        mask = None
        if any(len(rest) < largest for _, rest in bucket):
            mask = torch.stack([torch.arange(largest) < len(rest) for _, rest in bucket]).float()
        padded = [torch.cat([rest, rest[:1].expand(largest - len(rest))]) for _, rest in bucket]
        yield Step(_places([k for k, _ in bucket]), torch.stack(padded), mask)


def _places(active: list[int]) -> int | Tensor:
    return len(active) if active == list(range(len(active))) else torch.tensor(active)
