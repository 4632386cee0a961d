"""NNM, nearest-neighbour mixing: each row becomes the mean of itself and the rows nearest to it.

``row_i <- mean of the n - f rows nearest to row_i``, itself among them, where f of the n may be hostile. Honest rows
become alike, so that a rule behind it (``aggregation = ["nnm", "median"]``) has fewer differences to mistake for
hostility. Ties go to the earlier client. Needs n > 2f.

It promises: a hostile row that is farther from an honest one than all other honest ones has no part in what becomes of
it. The hostile row itself stays far away, if less so: leaving it out is for the rule behind.

Allouah, Farhadkhani, Guerraoui, Gupta, Pinot and Stephan, Fixing by Mixing: A Recipe for Optimal Byzantine ML under
Heterogeneity, AISTATS 2023, https://arxiv.org/abs/2302.01772, algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.aggregation.any_size import as_finite, cut_sizes
from fedloom.aggregation.changes import changes_of
from fedloom.aggregation.krum import compared_columns, squared_distances
from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.aggregator import AggregationContext


@dataclass(frozen=True)
class NNM(ShareRule):
    """The mean of rows, each of which is the mean of its nearest ones; before another rule, these rows.

    Args:
        share: The share of the clients that may be hostile.
        bucket: How many clients are averaged before the rule sees them; only where it makes the row.
    """

    protects: ClassVar[str] = "mixing each update with those most like it"

    alone: ClassVar[str] = (
        "mixes rows for a rule behind it, and alone leaves hostile ones in the mean: put a robust rule behind it, for "
        'instance aggregation = ["nnm", "median"]'
    )

    def mix(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """Each client's change becomes the mean of the nearest ones, from where that client started."""
        changes = cut_sizes(changes_of(rows, context))
        mixed = as_finite(self._mixed(changes, context), rows)
        return mixed if context.origin is None else mixed + context.origin

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The mean of the mixed rows."""
        return self._mixed(rows, context).mean(0)

    def _mixed(self, rows: Tensor, context: AggregationContext) -> Tensor:
        nearest = len(rows) - self.hostile(len(rows))
        order = squared_distances(compared_columns(rows, context)).argsort(dim=1, stable=True)[:, :nearest]
        shares = rows.new_zeros(len(rows), len(rows)).scatter_(1, order, 1.0 / nearest)
        return shares @ rows
