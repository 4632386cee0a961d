"""CFL: FedAvg within clusters; a cluster of conflicting clients is split in two.

Within a cluster ``w <- sum_k p_k w_k``. After round ``warmup`` a cluster of more than two clients is split when
``||mean update|| < eps1`` and ``max ||update|| > eps2``, by complete linkage on the updates' cosine similarity, as in
the authors' code, and only in a round in which all of its clients took part. Until the first split this is FedAvg.

Sattler, Müller and Samek, Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization Under Privacy
Constraints, IEEE TNNLS 2021, https://arxiv.org/abs/1910.01991. Corrected against text that circulates: CFL compares
weight updates, not gradients. Norms and angles are those of trained weights, not of running statistics.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.message import Replies
from fedloom.core.settings import Positive, WholeNumber
from fedloom.methods.clustered import Clustered, assign_clusters, cluster_means, trained_weights

log = logging.getLogger("fedloom")


@dataclass(frozen=True)
class CFL(Clustered):
    """FedAvg within clusters; a cluster of conflicting clients is split in two.

    Args:
        eps1: A cluster may split when the norm of its mean update is below this.
        eps2: A cluster may split when the largest norm of an update is above this.
        warmup: Rounds before the first split.
    """

    eps1: Positive = 0.4
    eps2: Positive = 1.6
    warmup: WholeNumber = 20

    def aggregate(self, server: State, replies: Replies) -> State:
        rows, context = server["rows"], replies.context
        own = server["cluster"][torch.tensor(replies.ids)]
        in_all = torch.bincount(server["cluster"][torch.tensor(context.clients)], minlength=len(rows))
        for number in sorted(set(own.tolist())):
            members = (own == number).nonzero().flatten()
            if len(members) == in_all[number] and self.should_split(replies.only(own == number), rows[number]):
                leaving = members[bipartition(trained_weights(context, replies["row"][members] - rows[number]))]
                log.info(
                    "round %d: %d of %d clients leave cluster %d", context.round, len(leaving), len(members), number
                )
                own[leaving] = len(rows)
                rows = torch.cat([rows, rows[number : number + 1]])
        return {"rows": cluster_means(rows, replies, own), "cluster": assign_clusters(server, replies, own)}

    def should_split(self, replies: Replies, row: Tensor) -> bool:
        """Whether a cluster stands still as a whole while its clients' updates are large."""
        context = replies.context
        if context.round <= self.warmup or len(replies.ids) <= 2:
            return False
        mean, updates = (
            trained_weights(context, (replies.mean("row") - row)[None]),
            trained_weights(context, replies["row"] - row),
        )
        return bool(mean.norm() < self.eps1 and updates.norm(dim=1).max() > self.eps2)


def bipartition(updates: Tensor) -> Tensor:
    """Two groups by complete linkage on cosine similarity: a mask of the smaller group, which leaves."""
    from sklearn.cluster import AgglomerativeClustering

    directions = torch.nn.functional.normalize(updates)
    distances = (1 - directions @ directions.T).numpy()
    halves = AgglomerativeClustering(2, metric="precomputed", linkage="complete").fit_predict(distances)
    first = torch.from_numpy(halves == halves[0])
    return ~first if 2 * int(first.sum()) >= len(first) else first
