"""What robust rules have in common: a share of hostile clients that they tolerate, and buckets.

No rule uses the run's weights: a hostile client says itself how many samples it has. All of them are made for clients
whose updates are alike. Where clients differ, an honest client with unusual data looks hostile, and what makes the
average good is cut away. Buckets mend part of that: clients are shuffled, each ``bucket`` of them are averaged, and the
rule sees the averages, which differ less (Karimireddy, He and Jaggi, Byzantine-Robust Learning on Heterogeneous
Datasets via Bucketing, ICLR 2022, https://arxiv.org/abs/2006.09365, algorithm 1). A hostile client corrupts its whole
bucket, so the rule then has to tolerate up to ``bucket`` times the share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.aggregation.any_size import as_finite, cut_sizes
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Count, NonNegative


@dataclass(frozen=True)
class RobustRule(Aggregator):
    """Makes one row of many such that a few hostile ones cannot lead it far; a subclass is its ``rule``.

    Args:
        bucket: How many clients are averaged, drawn anew in each round, before the rule sees them.
    """

    protects: ClassVar[str] = "a rule that withstands some hostile clients"

    bucket: Count = field(default=1, kw_only=True)

    breaks: ClassVar[Facts] = {Fact.OWN_INFLUENCE: "decides by what the others sent how much a client counts"}

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The row that stands for all of them.

        Args:
            rows: A row per client, or per bucket of clients; in double precision where their squares would overflow.
            context: What the server has in this round.
        """
        raise TypeError(f"{type(self).__name__} has no rule")

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The rule on rows, or on their buckets, without numbers that it could not compute with."""
        seen = self.in_buckets(cut_sizes(rows), context)
        return as_finite(self.rule(seen, context), rows)

    def hostile(self, rows: int) -> int:
        """How many hostile ones among a number of rows it is prepared for; 0 for a rule that promises no number.

        Args:
            rows: How many rows there are.
        """
        return 0

    def withstands_rest(self, clients: int, gone: int) -> bool:
        """Whether its condition holds for the rest with as many fewer hostile ones as are gone.

        Of n clients it withstands f. If one of them is known to be hostile and is gone, the others, n - 1, are to be
        withstood with f - 1 hostile ones among them. Where more are gone than it withstands, nothing was promised, and
        the rest is to be as many as for any round.

        Args:
            clients: How many clients sent something.
            gone: How many of them sent what is no number, and do not count.
        """
        left = self.hostile(self._rows(clients)) - gone
        if left < 0:
            return super().withstands_rest(clients, gone)
        return clients > gone and self.hostile(self._rows(clients - gone)) >= left

    def in_buckets(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The means of randomly drawn buckets; the rows themselves if a bucket is one client.

        Args:
            rows: A row per client.
            context: What the server has in this round.
        """
        if self.bucket == 1:
            return rows
        order = torch.randperm(len(rows), generator=context.generator("bucketing"))
        return torch.stack([rows[places].mean(0) for places in torch.split(order, self.bucket)])

    def _rows(self, clients: int) -> int:
        """How many rows the rule sees of a number of clients."""
        return -(-clients // self.bucket)


@dataclass(frozen=True)
class ShareRule(RobustRule):
    """A robust rule that has to know which share of the clients may be hostile.

    Args:
        share: The share of the clients that may be hostile. Times the bucket it is the share of hostile buckets, which
            the rule has to tolerate.
        bucket: How many clients are averaged, drawn anew in each round, before the rule sees them.
    """

    bound: ClassVar[tuple[int, int]] = (2, 1)
    """It tolerates f hostile rows of n if n is at least the first number times f plus the second."""

    share: NonNegative = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = 1 / self.bound[0]
        if self.share * self.bucket >= limit:
            buckets = f": with buckets of {self.bucket} that share counts {self.bucket} times" * (self.bucket > 1)
            raise FedloomError(f"{self.name}: share={self.share}: it must be below {limit:g}{buckets}.")

    @property
    def least_clients(self) -> int:
        """As many as make the share at least one client that the rule can tolerate."""
        clients, rows, (times, plus) = 1, 1, self.bound
        while rows < times * self._claim(rows) + plus or (self.share and not self._claim(rows)):
            clients += 1
            rows = self._rows(clients)
        return clients

    def tolerated(self, clients: int) -> int | None:
        """Fewer than the share, or none where the share is less than one client."""
        rows = self._rows(clients)
        found = self.hostile(rows)
        return found if self.share and found < max(1, self._claim(rows)) else None

    def hostile(self, rows: int) -> int:
        """How many hostile ones among a number of rows it is prepared for: the share, or as many as it can tolerate.

        Args:
            rows: How many rows there are.
        """
        times, plus = self.bound
        return max(0, min(self._claim(rows), (rows - plus) // times))

    def _claim(self, rows: int) -> int:
        return int(self.share * self.bucket * rows + 1e-9)
