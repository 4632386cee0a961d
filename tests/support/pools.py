"""Pools for tests of selectors: sizes, and clients whose answers are given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from fedloom.core.selector import Pool, Probe


@dataclass
class Clients:
    """Clients that answer with fixed losses and scores, and remember who was asked."""

    losses: Sequence[float]
    scores: Sequence[float] = ()
    asked: list[list[int]] = field(default_factory=list)

    def __call__(self, places: Sequence[int]) -> Probe:
        self.asked.append(list(places))
        scores = self.scores or [0.0] * len(self.losses)
        return Probe(torch.tensor([self.losses[p] for p in places]), torch.tensor([scores[p] for p in places]))


def pool(
    samples: Sequence[int] | int,
    clients: Clients | None = None,
    *,
    seed: int = 0,
    number: int = 1,
    state: Mapping[str, torch.Tensor] | None = None,
    grouped: bool = False,
) -> Pool:
    """A pool of clients of given sizes (or so many of ten samples each) in a round."""
    sizes = torch.tensor([10] * samples if isinstance(samples, int) else samples)
    return Pool(sizes, seed, number, 100, state or {}, clients or Clients([1.0] * len(sizes)), grouped)


def same(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    """Whether two states are equal to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
