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

from fedloom.core.local_work import LocalWork
from fedloom.core.seeds import generator

PADDING = 0.25
"""A bucket holds partial batches whose sizes differ by at most this share of the largest."""


@dataclass(frozen=True)
class Assignment:
    """One client's samples (positions in the columns), how many steps it makes, and its own order generator.

    A batch is here what a step takes; gradient accumulation splits it (``accumulation.py``).
    """

    client: int
    positions: Tensor
    samples: int
    steps: int
    batch_size: int
    order: torch.Generator

    @staticmethod
    def of(client: int, positions: Tensor, work: LocalWork, seed: int, round_number: int) -> Assignment:
        """A client's work in a round; a straggler (``work.partial``) makes only some of its steps."""
        samples = len(positions)
        steps = work.steps_for(samples)
        if work.partial and steps > 1:
            chance = generator(seed, "partial", round_number, client)
            if float(torch.rand((), generator=chance)) < work.partial:
                steps = int(torch.randint(1, steps + 1, (), generator=chance))
        order = generator(seed, "order", round_number, client)
        return Assignment(client, positions, samples, steps, work.samples_per_step or samples, order)

    @property
    def per_epoch(self) -> int:
        """Batches in one epoch, the partial last one included."""
        return math.ceil(self.samples / self.batch_size)

    @property
    def epochs(self) -> int:
        """How many epochs there are; the last one may be incomplete."""
        return math.ceil(self.steps / self.per_epoch)

    def samples_in_epoch(self, number: int) -> int:
        """How many samples an epoch uses: all of them, except in the last epoch of a fixed number of steps."""
        return max(0, min(self.samples, (self.steps - number * self.per_epoch) * self.batch_size))

    def sizes(self, most: int) -> list[int]:
        """The sizes of the client's batches, step by step; 0 once it has finished, up to ``most`` steps."""
        last = self.samples - (self.per_epoch - 1) * self.batch_size
        epoch = [self.batch_size] * (self.per_epoch - 1) + [last]
        return (epoch * self.epochs)[: self.steps] + [0] * (most - self.steps)

    def __iter__(self) -> Iterator[Tensor]:
        for number in range(self.epochs):
            order = self.positions[torch.randperm(self.samples, generator=self.order)]
            yield from torch.split(order[: self.samples_in_epoch(number)], self.batch_size)


class Shuffled:
    """The orders in which a cohort's clients see their samples: one row per client, one gather per epoch."""

    def __init__(self, work: Sequence[Assignment]) -> None:
        self.work = work
        widest = max(one.samples for one in work)
        self.positions = torch.zeros(len(work), widest, dtype=torch.int64)
        self.order = torch.zeros(len(work), widest, dtype=torch.int64)
        for place, one in enumerate(work):
            self.positions[place, : one.samples] = one.positions

    def epoch(self, number: int) -> Tensor:
        """Clients × samples: a new order for everyone who still sees samples. Call it for each epoch in turn."""
        for row, one in zip(self.order.unbind(), self.work, strict=True):
            if number < one.epochs:
                torch.randperm(one.samples, generator=one.order, out=row[: one.samples])
        return self.positions.gather(1, self.order)


@dataclass(frozen=True)
class BatchStep:
    """One step of some clients of a cohort: their places in it, the samples, and what is padding.

    ``rows`` is a prefix length when the clients are the first of the cohort, else a list of places.
    ``positions`` is clients × batch; ``mask`` is None when no sample is padding.
    """

    rows: int | Tensor
    positions: Tensor
    mask: Tensor | None


def interleave(work: Sequence[Assignment]) -> Iterator[BatchStep]:
    """The steps of a whole cohort, sorted by size (largest first), as few and as full as possible."""
    size, shuffled = work[0].batch_size, Shuffled(work)
    for number in range(max(one.epochs for one in work)):
        orders, seen = shuffled.epoch(number), [one.samples_in_epoch(number) for one in work]
        full = [n // size if one.batch_size == size else 0 for n, one in zip(seen, work, strict=True)]
        for s in range(max(full)):
            places = places_of([k for k, count in enumerate(full) if count > s])
            batch = orders[:, s * size : (s + 1) * size]
            yield BatchStep(places, batch[:places] if isinstance(places, int) else batch[places], None)
        yield from _partial({k: orders[k, full[k] * size : n] for k, n in enumerate(seen)})


def _partial(rests: dict[int, Tensor]) -> Iterator[BatchStep]:
    """The batches that are smaller than the cohort's batch size: last ones, and those of ``batch_size=0``."""
    sizes = {k: len(rest) for k, rest in rests.items()}
    waiting = sorted((k for k, size in sizes.items() if size), key=lambda k: (-sizes[k], k))
    while waiting:
        largest = sizes[waiting[0]]
        bucket = sorted(k for k in waiting if sizes[k] >= (1 - PADDING) * largest)
        waiting = [k for k in waiting if sizes[k] < (1 - PADDING) * largest]
        mask = None
        if any(sizes[k] < largest for k in bucket):
            mask = (torch.arange(largest) < torch.tensor([[sizes[k]] for k in bucket])).float()
        padded = [torch.cat([rests[k], rests[k][:1].expand(largest - sizes[k])]) for k in bucket]
        yield BatchStep(places_of(bucket), torch.stack(padded), mask)


def lockstep(work: Sequence[Assignment]) -> Iterator[BatchStep]:
    """Every client's next batch at once, all of one shape; a client that has finished is all padding."""
    size, most = max(one.batch_size for one in work), max(one.steps for one in work)
    shuffled = Shuffled(work)
    positions = torch.zeros(most, len(work), size, dtype=torch.int64)
    alike = len({(one.batch_size, one.samples, one.steps) for one in work}) == 1
    for number in range(max(one.epochs for one in work)):
        orders = shuffled.epoch(number)
        for place, one in [(slice(None), work[0])] if alike else enumerate(work):
            start, seen = number * one.per_epoch, one.samples_in_epoch(number)
            for step, first in enumerate(range(0, seen, one.batch_size), start):
                batch = orders[place, first : min(first + one.batch_size, seen)]
                positions[step, place, : batch.shape[-1]] = batch
    sizes = torch.tensor([one.sizes(most) for one in work]).t().unsqueeze(2)
    mask = (torch.arange(size) < sizes).float()
    for step in range(most):
        yield BatchStep(len(work), positions[step], mask[step])


def places_of(active: list[int]) -> int | Tensor:
    """The places of some clients of a cohort: a prefix length when they are the first of it, else a list of places."""
    return len(active) if active == list(range(len(active))) else torch.tensor(active)
