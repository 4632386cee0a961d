"""Krum and Multi-Krum: the rows that lie closest to their neighbours.

The score of a row is the sum of its squared distances to its n - f - 2 nearest others, where f of the n rows may be
hostile. Krum takes the row with the lowest score as it is; Multi-Krum averages the rows with the lowest scores. Of
equal scores the first client's counts. Both need n >= 2f + 3.

They promise: a hostile row that is farther from all honest rows than ``sqrt((n - f - 2) / (n - 2f - 1))`` times the
largest distance between two of these is neither taken by Krum nor averaged by Multi-Krum (with its usual ``chosen``),
whatever its size. One that is closer may be.

Blanchard, El Mhamdi, Guerraoui and Stainer, Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent,
NeurIPS 2017, https://arxiv.org/abs/1703.02757, section 4 and section 5 (Multi-Krum).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import Count


def krum_scores(distances: Tensor, hostile: int) -> Tensor:
    """The score of each row: the sum of its squared distances to its n - f - 2 nearest others.

    Args:
        distances: The squared distance of each pair of rows.
        hostile: How many rows may be hostile (f).
    """
    nearest = max(1, len(distances) - hostile - 2)
    return distances.sort(dim=1).values[:, 1 : 1 + nearest].sum(1)  # the first distance is that to itself


@dataclass(frozen=True)
class Krum(ShareRule):
    """The row that lies closest to its neighbours; every client counts alike.

    Args:
        share: The share of the clients that may be hostile.
        bucket: How many clients are averaged before the rule sees them.
    """

    bound: ClassVar[tuple[int, int]] = (2, 3)

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The row with the lowest score."""
        distances = squared_distances(compared_columns(rows, context))
        return rows[krum_scores(distances, self.hostile(len(rows))).argmin()]


@dataclass(frozen=True)
class MultiKrum(ShareRule):
    """The mean of the rows that lie closest to their neighbours; every client counts alike.

    Args:
        share: The share of the clients that may be hostile.
        chosen: How many rows are averaged; by default all but as many as may be hostile.
        bucket: How many clients are averaged before the rule sees them.
    """

    bound: ClassVar[tuple[int, int]] = (2, 3)

    chosen: Count | None = None

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The mean of the rows with the lowest scores."""
        hostile = self.hostile(len(rows))
        scores = krum_scores(squared_distances(compared_columns(rows, context)), hostile)
        best = scores.argsort(stable=True)[: self.chosen or len(rows) - hostile]
        return rows[best.sort().values].mean(0)


COLUMNS = 8192
"""How many columns are compared at a time."""
ROWS = 128
"""How many rows are compared with those behind them at a time, where there are many products."""
EXACT = 1_000_000_000
"""Up to this number of products they are taken in double precision: equal distances are then equal numbers."""


def squared_distances(rows: Tensor) -> Tensor:
    """The squared distance of each pair of rows, in double precision.

    ``|a - b|² = |a|² + |b|² - 2ab`` over a block of columns at a time. Each column is centred first on its median (the
    lower one), so that little is lost where rows lie close together and far from the origin. Centred on their mean,
    honest rows would be far from the origin whenever one hostile row is.

    Args:
        rows: A row per client.
    """
    products = rows.new_zeros(len(rows), len(rows), dtype=torch.float64)
    exact = len(rows) * rows.numel() <= EXACT
    for block in torch.split(rows, COLUMNS, dim=1):
        centre = block.median(0).values
        if exact:
            centred = block.double() - centre.double()  # one of the values is subtracted: without rounding, mostly
            products += centred @ centred.T
            continue
        centred = block - centre
        for first in range(0, len(rows), ROWS):  # above the diagonal only: below it are the same products
            products[first : first + ROWS, first:] += centred[first : first + ROWS] @ centred[first:].T
    products = products.triu() + products.triu(1).T  # two rows are equally far from each other, to the last bit
    squares = products.diagonal()
    return (squares[:, None] + squares - 2 * products).clamp(min=0).fill_diagonal_(0)


def compared_columns(rows: Tensor, context: AggregationContext) -> Tensor:
    """What of the rows is compared: the trained weights of whole models, without running statistics; else all of it.

    Args:
        rows: A row per client.
        context: What the server has in this round.
    """
    return context.layout.take_trained(rows) if rows.shape[-1] == context.layout.width else rows
