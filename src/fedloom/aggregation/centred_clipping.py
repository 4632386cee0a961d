"""Centred clipping: every client moves the last round's change, but each by at most a radius.

``v <- v + mean_i((x_i - v) * min(1, radius / |x_i - v|))``, starting from the change of the round before, a few times.

It promises: the centre moves by at most the radius in each iteration, and a hostile client moves it by at most the
radius divided by the number of clients, whatever it sends. The default radius is a median, which fewer than half of
the clients cannot move beyond what honest clients sent.

Karimireddy, He and Jaggi, Learning from History for Byzantine Robust Optimization, ICML 2021,
https://arxiv.org/abs/2012.10333, algorithm 2. The paper's clients send momenta; here they send changes of local
training.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.aggregation.changes import changes_of, clip_norms, moved_by
from fedloom.aggregation.median import coordinate_median
from fedloom.aggregation.robust_rule import RobustRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import Count, Positive


@dataclass(frozen=True)
class CentredClipping(RobustRule):
    """The change of the last round, moved by every client, by at most a radius; every client counts alike.

    Args:
        radius: How far a client may lie from the centre; by default the median distance of the round.
        iterations: How often the centre is moved.
        bucket: How many clients are averaged before the rule sees them.
    """

    radius: Positive | None = None
    iterations: Count = 1

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The rule on changes; its result is where the next round starts."""
        change = super().__call__(changes_of(rows, context), weights, context)
        context.memory["centre"] = change
        return moved_by(change, context)

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The centre, moved by the clipped differences to it."""
        centre = context.memory.get("centre", torch.zeros_like(rows[0]))
        for _ in range(self.iterations):
            away = rows - centre
            radius = coordinate_median(away.norm(dim=1)) if self.radius is None else self.radius
            centre = centre + clip_norms(away, radius).mean(0)
        return centre
