"""FeSEM: clients belong to the nearest of several centres, and each centre is the mean of its clients.

Each round: a client trains from its centre and goes to the centre j with the least ``||w_k - c_j||``; then
``c_j <- sum_k p_k w_k`` over its clients. All centres start from the initial row; the rows of the first round seed them
by k-means++. With one cluster this is FedAvg.

Long, Xie et al., Multi-Center Federated Learning: Clients Clustering for Better Personalization, 2021,
https://arxiv.org/abs/2108.08647. Corrected against text that circulates: centres do not repel each other. Distances are
those of trained weights, not of running statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.message import Replies
from fedloom.core.server_context import ServerContext
from fedloom.methods.clustered import FixedClusters, assign_clusters, cluster_means, trained_weights


@dataclass(frozen=True)
class FeSEM(FixedClusters):
    """Clients belong to the nearest of several centres, and each centre is the mean of its clients.

    Args:
        clusters: How many centres there are.
    """

    def aggregate(self, server: State, replies: Replies) -> State:
        rows, centres, context = replies["row"], server["rows"], replies.context
        if context.round == 1:
            centres = rows[self.seeds(trained_weights(context, rows), context)]
        nearest = squared_distances(trained_weights(context, rows), trained_weights(context, centres)).argmin(1)
        return {"rows": cluster_means(centres, replies, nearest), "cluster": assign_clusters(server, replies, nearest)}

    def seeds(self, rows: Tensor, context: ServerContext) -> list[int]:
        """The positions of k-means++ seeds: each is drawn with probability proportional to its squared distance."""
        random = context.generator("centres")
        chosen = [int(torch.randint(len(rows), (), generator=random))]
        while len(chosen) < self.clusters:
            distance = squared_distances(rows, rows[chosen]).amin(1)
            chosen.append(int(torch.multinomial(distance if distance.any() else distance + 1, 1, generator=random)))
        return chosen


def squared_distances(rows: Tensor, centres: Tensor) -> Tensor:
    """Squared L2 distances, a column per centre."""
    return torch.stack([(rows - centre).square().sum(1) for centre in centres], dim=1)
