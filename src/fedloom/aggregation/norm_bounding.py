"""Norm bounding: the weighted mean of changes whose norm is bounded.

A hostile client that wants to move the average has to send a large change; a change above the bound is scaled down to
it. It is the only rule here that keeps the run's weights, and without a change above the bound it is the mean.

With ``noise`` it is the paper's *weak differential privacy*: a little Gaussian noise on the mean, which washes out what
a few clients put there. So little noise is no guarantee, and no epsilon is stated; ``privatemean`` has one.

It promises: the result is at most the bound away from what clients started from, and a hostile client moves it by at
most its weight times twice the bound, whatever it sends. The default bound is a median, which fewer than half of the
clients cannot move beyond what honest clients sent.

Sun, Kairouz, Suresh and McMahan, Can You Really Backdoor Federated Learning?, 2019, https://arxiv.org/abs/1911.07963.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.aggregation.changes import changes_of, clip_norms, moved_by
from fedloom.aggregation.median import coordinate_median
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import NonNegative, Positive


@dataclass(frozen=True)
class NormBounding(Aggregator):
    """The weighted mean of changes with a bounded norm.

    Args:
        most: The largest norm of a change; by default the median norm of the round.
        noise: The standard deviation of Gaussian noise on every number of the mean.
    """

    protects: ClassVar[str] = "a bound on how far one client moves the model"

    most: Positive | None = None
    noise: NonNegative = 0.0

    @property
    def breaks(self) -> Facts:  # type: ignore[override]  # a given bound is nobody's
        """A bound that is the median norm is decided by all clients."""
        return {} if self.most else {Fact.OWN_INFLUENCE: "bounds each change by the median of all"}

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The weighted mean of the bounded changes."""
        changes = changes_of(rows, context)
        norms = torch.linalg.vector_norm(changes, dim=1, dtype=torch.float64)
        most = coordinate_median(norms) if self.most is None else self.most
        mean = weights @ clip_norms(changes, most)
        if self.noise:
            mean = mean + self.noise * torch.randn(mean.shape, generator=context.generator("weak noise")).to(mean)
        return moved_by(mean, context)
