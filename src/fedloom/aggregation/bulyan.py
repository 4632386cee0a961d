"""Bulyan: Krum chooses rows one after another, and of these the values around each coordinate's median are averaged.

Of n rows, f of which may be hostile, Krum chooses n - 2f, each among those that are left; in each coordinate the
n - 4f values closest to the median of the chosen are averaged. It needs n >= 4f + 3. Of equal scores the first client's
counts.

It promises: every coordinate is within the range of what honest clients sent, widened on either side by at most the
width of that range, whatever the hostile rows are.

El Mhamdi, Guerraoui and Rouault, The Hidden Vulnerability of Distributed Learning in Byzantium, ICML 2018,
https://arxiv.org/abs/1802.07927, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.aggregation.krum import compared_columns, krum_scores, squared_distances
from fedloom.aggregation.median import coordinate_median
from fedloom.aggregation.robust_rule import ShareRule
from fedloom.core.aggregator import AggregationContext
from fedloom.core.settings import NonNegative


@dataclass(frozen=True)
class Bulyan(ShareRule):
    """The mean of the values around the median of the rows that Krum chooses; every client counts alike.

    Args:
        share: The share of the clients that may be hostile; below 0.25.
        bucket: How many clients are averaged before the rule sees them.
    """

    bound: ClassVar[tuple[int, int]] = (4, 3)

    share: NonNegative = 0.1

    def rule(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """The trimmed mean around the median of the chosen rows."""
        hostile = self.hostile(len(rows))
        chosen = rows[self._choose(squared_distances(compared_columns(rows, context)), hostile)]
        away = (chosen - coordinate_median(chosen)).abs()
        closest = away.argsort(dim=0, stable=True)[: len(chosen) - 2 * hostile]
        return chosen.gather(0, closest.sort(dim=0).values).mean(0)

    def _choose(self, distances: Tensor, hostile: int) -> Tensor:
        """The places of the n - 2f rows that Krum chooses one after another, in client order."""
        left, chosen = list(range(len(distances))), []
        for _ in range(len(distances) - 2 * hostile):
            among = distances[left][:, left]
            chosen.append(left.pop(int(krum_scores(among, hostile).argmin())))
        return torch.tensor(sorted(chosen))
