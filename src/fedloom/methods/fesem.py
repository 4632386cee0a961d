"""TODO: docstring."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.message import Replies
from fedloom.core.server_context import ServerContext
from fedloom.methods.clustered import Centred, assigned, means, trained


@dataclass(frozen=True)
class FeSEM(Centred):
    """Clients belong to the nearest of several centres, and each centre is the mean of its clients.

    Xie et al., Multi-Center Federated Learning: Clients Clustering for Better Personalization, 2021. Each round: train
    from one's centre; go to the centre at the least L2 distance of weights; centres become means. All start from the
    initial row, and the first round's rows seed the centres by k-means++. With one cluster this is FedAvg.
    """

    def aggregate(self, server: State, replies: Replies) -> State:
        rows, centres, context = replies["row"], server["rows"], replies.context
        if context.round == 1:
            centres = rows[self.seeds(trained(context, rows), context)]
        nearest = squared_distances(trained(context, rows), trained(context, centres)).argmin(1)
        return {"rows": means(centres, replies, nearest), "cluster": assigned(server, replies, nearest)}

    def seeds(self, rows: Tensor, context: ServerContext) -> list[int]:
        """The places of k-means++ seeds: each the next with probability proportional to its squared distance."""
        luck = context.generator("centres")
        chosen = [int(torch.randint(len(rows), (), generator=luck))]
        while len(chosen) < self.clusters:
            away = squared_distances(rows, rows[chosen]).amin(1)
            chosen.append(int(torch.multinomial(away if away.any() else away + 1, 1, generator=luck)))
        return chosen


def squared_distances(rows: Tensor, centres: Tensor) -> Tensor:
    """Squared L2 distances, a column per centre."""
    return torch.stack([(rows - centre).square().sum(1) for centre in centres], dim=1)
