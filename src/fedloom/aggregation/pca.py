"""PCA of updates: clients whose updates form a group of their own, seen from the two directions of most variance.

Clients with flipped labels push the same way, so their updates lie together, apart from the honest ones, on the first
two principal components of the centred updates. The two groups are found by 2-means on these, starting from the two
clients that lie farthest apart on the first. Where they are well separated (the mean silhouette is at least
``separation``), the smaller group is not trusted; else everybody is.

It promises nothing: where honest clients differ as much as hostile ones do, it takes a minority of honest ones for
hostile, and one that hides among the honest is not seen. The paper shows the groups to a person, who decides; the
silhouette is our reading of that.

Tolpegin, Truex, Gursoy and Liu, Data Poisoning Attacks Against Federated Learning Systems, ESORICS 2020,
https://arxiv.org/abs/2007.08432, section 5 (of the last layer there; all columns here).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.aggregation.any_size import as_finite, cut_sizes
from fedloom.aggregation.changes import changes_of, moved_by
from fedloom.core.aggregator import AggregationContext, Aggregator
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import OpenShare

MOST_STEPS = 50
"""2-means on a few points in two dimensions stands still long before."""


@dataclass(frozen=True)
class PCA(Aggregator):
    """The weighted mean without the smaller of two groups of updates, if these are well separated.

    Args:
        separation: The mean silhouette from which on the groups count as two.
    """

    protects: ClassVar[str] = "leaving out the smaller group where updates fall into two"

    breaks: ClassVar[Facts] = {Fact.OWN_INFLUENCE: "decides by what the others sent whether a client counts"}
    alone: ClassVar[str] = (
        "leaves a group of updates out, and a client that hides among the others moves its mean: put a robust rule "
        'behind it, for instance aggregation = ["pca", "multikrum"]'
    )

    separation: OpenShare = 0.5

    @property
    def least_clients(self) -> int:
        """Three: of two, neither is the smaller group."""
        return 3

    def __call__(self, rows: Tensor, weights: Tensor, context: AggregationContext) -> Tensor:
        """The weighted mean of the changes of trusted clients."""
        changes = cut_sizes(changes_of(rows, context))
        trusted = (weights.to(changes) * self.trust(rows, context).to(changes)).clamp(min=0)
        return moved_by(as_finite(trusted @ changes / trusted.sum().clamp(min=1e-30), rows), context)

    def trust(self, rows: Tensor, context: AggregationContext) -> Tensor:
        """0 for the clients of the smaller group, 1 for the others."""
        points = principal_components(cut_sizes(changes_of(rows, context)))
        group = two_groups(points)
        smaller = int(group.double().mean() < 0.5)
        if len(rows) < self.least_clients or mean_silhouette(points, group) < self.separation:
            return torch.ones(len(rows))
        return (group != smaller).float()


def principal_components(rows: Tensor) -> Tensor:
    """The rows on their two directions of most variance.

    Args:
        rows: A row per client.
    """
    centred = rows.double() - rows.double().mean(0)
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    points: Tensor = vectors[:, -2:].flip(1) * values[-2:].flip(0).clamp(min=0).sqrt()
    return points


def two_groups(points: Tensor) -> Tensor:
    """0 or 1 for each point: 2-means from the two points that lie farthest apart on the first axis.

    Args:
        points: A point per client.
    """
    centres = points[[int(points[:, 0].argmin()), int(points[:, 0].argmax())]]
    group = torch.cdist(points, centres).argmin(1)
    for _ in range(MOST_STEPS):
        if not 0 < int(group.sum()) < len(group):
            break
        centres = torch.stack([points[group == one].mean(0) for one in (0, 1)])
        moved = torch.cdist(points, centres).argmin(1)
        if torch.equal(moved, group):
            break
        group = moved
    return group


def mean_silhouette(points: Tensor, group: Tensor) -> float:
    """How well two groups are separated, from -1 to 1; a point that is alone in its group counts as 0.

    Args:
        points: A point per client.
        group: The group of each, as ``two_groups`` gives it.
    """
    if not 0 < int(group.sum()) < len(group):
        return 0.0
    distances, same = torch.cdist(points, points), group[:, None] == group
    others = same.sum(1) - 1
    own = (distances * same).sum(1) / others.clamp(min=1)
    other = (distances * ~same).sum(1) / (~same).sum(1)
    found = torch.where(others > 0, (other - own) / torch.maximum(own, other).clamp(min=1e-30), 0.0)
    return float(found.mean())
