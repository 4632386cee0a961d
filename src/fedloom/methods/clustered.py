"""Clustered methods: clients whose data agree share a model, and who agrees with whom is found while training.

CFL (Sattler, Müller and Samek, 2021) splits a cluster in two when its mean update has become small and single updates
have not; FeSEM (Xie et al., 2021) keeps each client with the centre nearest to its weights; IFCA (Ghosh et al.,
NeurIPS 2020) sends all models down and lets each client take the one with the least loss. Means within a cluster are
weighted as the run says; distances and angles are those of trained weights, not of running statistics. Corrected
against text that circulates: CFL compares weight updates, not gradients, and FeSEM's centres do not repel each other.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task

log = logging.getLogger("fedloom")
NOBODY_YET = -1
"""The cluster of a client that never took part."""


@dataclass(frozen=True)
class Clustered(Algorithm):
    """What the family has in common: the server knows a row per cluster and the cluster of each client."""

    shares_whole_model: ClassVar[bool] = False

    def start(self, task: Task) -> State:
        """Everybody in one cluster."""
        return {"rows": task.initial_row()[None], "cluster": torch.zeros(task.federation.clients, dtype=torch.int64)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        """Each client gets its cluster's row; one that never took part gets that of the largest cluster."""
        cluster = server["cluster"]
        sizes = torch.bincount(cluster[cluster != NOBODY_YET], minlength=len(server["rows"]))
        own = cluster[torch.tensor(ids)]
        return Message(each={"row": server["rows"][torch.where(own == NOBODY_YET, sizes.argmax(), own)]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        """Local training from the received model, as in FedAvg."""
        return Reply({"row": cohort.train(message["row"])})


def means(rows: Tensor, replies: Replies, cluster: Tensor) -> Tensor:
    """Each cluster's mean of its clients' rows; a cluster of which nobody replied keeps its row."""
    new = rows.clone()
    for number in sorted(set(cluster.tolist())):
        new[number] = replies.only(cluster == number).mean("row")
    return new


def assigned(server: State, replies: Replies, cluster: Tensor) -> Tensor:
    """The clusters of all clients after those who replied were put into theirs."""
    return server["cluster"].index_copy(0, torch.tensor(replies.ids), cluster)


def trained(context: ServerContext, rows: Tensor) -> Tensor:
    """The columns of rows that are trained, in double precision."""
    columns = context.layout.trained_columns
    return (rows if columns is None else rows[:, columns]).double()


@dataclass(frozen=True)
class Centred(Clustered):
    """A fixed number of clusters, whose clients are found anew each time they take part."""

    clusters: int = 2

    def __post_init__(self) -> None:
        if self.clusters < 1:
            raise FedloomError(f"clusters={self.clusters}: there must be at least one.")

    def check(self, task: Task, work: LocalWork) -> None:
        if self.clusters > task.federation.clients:
            raise FedloomError(
                f"clusters={self.clusters} for {task.federation.clients} clients: there can be no more clusters than "
                "clients."
            )

    def start(self, task: Task) -> State:
        nobody = torch.full((task.federation.clients,), NOBODY_YET)
        return {"rows": task.initial_row().repeat(self.clusters, 1), "cluster": nobody}
