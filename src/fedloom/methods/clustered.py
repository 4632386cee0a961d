"""Clustered federated learning: clients whose data agree share a model; the clusters are found during training.

The base of CFL, FeSEM and IFCA. The server has one row per cluster and the cluster of each client. Means within a
cluster are weighted as the run says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count
from fedloom.core.task import Task

NO_CLUSTER = -1
"""The cluster of a client that never took part."""


@dataclass(frozen=True)
class Clustered(Algorithm):
    """The server has one row per cluster and the cluster of each client."""

    breaks: ClassVar[Facts] = {
        Fact.WHOLE_MODEL: "has a model for each group of clients",
        Fact.SHARED_MODEL: "has a model for each group of clients",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_TRAINING,)
    receives: ClassVar[Declared] = {"row": Model("the model of the site's group", each=True)}
    sends: ClassVar[Declared] = {"row": Model("the model that the site trained", single=True)}

    def start(self, task: Task) -> State:
        """All clients in one cluster."""
        return {"rows": task.initial_row()[None], "cluster": torch.zeros(task.federation.clients, dtype=torch.int64)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        """Each client gets its cluster's row; one that never took part gets that of the largest cluster."""
        cluster = server["cluster"]
        sizes = torch.bincount(cluster[cluster != NO_CLUSTER], minlength=len(server["rows"]))
        own = cluster[torch.tensor(ids)]
        return Message(each={"row": server["rows"][torch.where(own == NO_CLUSTER, sizes.argmax(), own)]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Train from the received model, as in FedAvg."""
        return Reply({"row": cohort.train(message["row"])})


def cluster_means(rows: Tensor, replies: Replies, cluster: Tensor) -> Tensor:
    """The mean row of each cluster's clients; a cluster without replies keeps its row."""
    new = rows.clone()
    for number in sorted(set(cluster.tolist())):
        new[number] = replies.only(cluster == number).mean("row", group=number)
    return new


def assign_clusters(server: State, replies: Replies, cluster: Tensor) -> Tensor:
    """The clusters of all clients, with new ones for the clients that replied."""
    return server["cluster"].index_copy(0, torch.tensor(replies.ids), cluster)


def trained_weights(context: ServerContext, rows: Tensor) -> Tensor:
    """The columns of rows that are trained, in double precision: distances leave running statistics out."""
    return context.layout.take_trained(rows).double()


@dataclass(frozen=True)
class FixedClusters(Clustered):
    """A fixed number of clusters; a client is assigned again whenever it takes part.

    Args:
        clusters: How many clusters there are.
    """

    clusters: Count = 2

    def check(self, task: Task, work: LocalWork) -> None:
        if self.clusters > task.federation.clients:
            raise FedloomError(
                f"clusters={self.clusters} for {task.federation.clients} clients: there can be no more clusters than "
                "clients."
            )

    def start(self, task: Task) -> State:
        nobody = torch.full((task.federation.clients,), NO_CLUSTER)
        return {"rows": task.initial_row().repeat(self.clusters, 1), "cluster": nobody}
