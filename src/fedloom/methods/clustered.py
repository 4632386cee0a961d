"""Clustered methods: clients whose data agree share a model, and who agrees with whom is found while training.

CFL (Sattler, Müller and Samek, 2021) splits a cluster in two when its mean update has become small and single updates
have not; FeSEM (Xie et al., 2021) keeps each client with the centre nearest to its weights; IFCA (Ghosh et al.,
NeurIPS 2020) sends all models down and lets each client take the one with the least loss. Means within a cluster are
weighted as the run says; distances and angles are those of trained weights, not of running statistics. Corrected
against text that circulates: CFL compares weight updates, not gradients, and FeSEM's centres do not repel each other.
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.seeds import key
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task

log = logging.getLogger("fedloom")
NOBODY_YET = -1
"""The cluster of a client that never took part."""


@dataclass(frozen=True)
class Clustered(Algorithm):
    """What the family has in common: the server knows a row per cluster and the cluster of each client."""

    whole: ClassVar[bool] = False

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
class CFL(Clustered):
    """FedAvg within clusters; a cluster of conflicting clients is split in two.

    Sattler, Müller and Samek, Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization Under
    Privacy Constraints, IEEE TNNLS 2021. A cluster of more than two clients is split, after round ``warmup``, when
    ``||mean update|| < eps1`` and ``max ||update|| > eps2``, by complete linkage on the updates' cosine similarity, as
    in the authors' code, and only in a round in which all of its clients took part. Until then this is FedAvg.
    """

    eps1: float = 0.4
    eps2: float = 1.6
    warmup: int = 20

    def __post_init__(self) -> None:
        for name, value in {"eps1": self.eps1, "eps2": self.eps2}.items():
            if not value > 0:
                raise FedloomError(f"{name}={value}: a bound on the length of updates must be positive.")
        if self.warmup < 0:
            raise FedloomError(f"warmup={self.warmup}: the number of rounds before a split must not be negative.")

    def aggregate(self, server: State, replies: Replies) -> State:
        rows, context = server["rows"], replies.context
        own = server["cluster"][torch.tensor(replies.ids)]
        in_all = torch.bincount(server["cluster"][torch.tensor(context.clients)], minlength=len(rows))
        for number in sorted(set(own.tolist())):
            members = (own == number).nonzero().flatten()
            if len(members) == in_all[number] and self.torn(replies.only(own == number), rows[number]):
                leaving = members[bipartition(trained(context, replies["row"][members] - rows[number]))]
                log.info(
                    "round %d: %d of %d clients leave cluster %d", context.round, len(leaving), len(members), number
                )
                own[leaving] = len(rows)
                rows = torch.cat([rows, rows[number : number + 1]])
        return {"rows": means(rows, replies, own), "cluster": assigned(server, replies, own)}

    def torn(self, replies: Replies, row: Tensor) -> bool:
        """Whether a cluster stands still as a whole while its clients pull apart."""
        context = replies.context
        if context.round <= self.warmup or len(replies.ids) <= 2:
            return False
        mean, updates = trained(context, (replies.mean("row") - row)[None]), trained(context, replies["row"] - row)
        return bool(mean.norm() < self.eps1 and updates.norm(dim=1).max() > self.eps2)


def bipartition(updates: Tensor) -> Tensor:
    """Two groups by complete linkage on cosine similarity: a mask of those who leave, never the larger group."""
    from sklearn.cluster import AgglomerativeClustering

    directions = torch.nn.functional.normalize(updates)
    distances = (1 - directions @ directions.T).numpy()
    halves = AgglomerativeClustering(2, metric="precomputed", linkage="complete").fit_predict(distances)
    first = torch.from_numpy(halves == halves[0])
    return ~first if 2 * int(first.sum()) >= len(first) else first


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


@dataclass(frozen=True)
class IFCA(Centred):
    """Every client gets all models, takes the one with the least loss on its training data, and trains that one.

    Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020, with model averaging. The first
    model is the initial row, the others are drawn anew by their layers' own ``reset_parameters``. A client predicts
    with the model it would choose. With one cluster this is FedAvg.
    """

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        if self.clusters > 1 and not any(hasattr(layer, "reset_parameters") for layer in task.model.modules()):
            raise FedloomError(
                f"ifca starts from models that differ, and no layer of {type(task.model).__name__} can be drawn anew: "
                "give its layers a reset_parameters(), or use fesem."
            )

    def prelude(self, server: State, context: ServerContext) -> Round:
        yield from ()  # nobody is asked
        others = [redrawn(context.task, key(context.seed, "ifca", number)) for number in range(1, self.clusters)]
        return {**server, "rows": torch.stack([server["rows"][0], *others])}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({"rows": server["rows"]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        choice = self.choice(message, cohort)
        return Reply({"row": cohort.train(message["rows"][choice]), "choice": choice.int()})

    def choice(self, message: Message, cohort: Cohort) -> Tensor:
        """The number of each client's model of least training loss."""
        losses = [cohort.evaluate(cohort.spread(row), "train").mean_loss for row in message["rows"]]
        return torch.stack(losses).argmin(0)

    def aggregate(self, server: State, replies: Replies) -> State:
        choice = replies["choice"].long().clamp(0, len(server["rows"]) - 1)  # a number that came over a wire
        return {"rows": means(server["rows"], replies, choice), "cluster": assigned(server, replies, choice)}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return message["rows"][self.choice(message, cohort)]


def redrawn(task: Task, seed: int) -> Tensor:
    """A row of the task's model with its trained layers drawn anew."""
    model = copy.deepcopy(task.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in model.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()  # type: ignore[operator]
    row, columns = task.layout.row(model), task.layout.trained_columns
    return row if columns is None else torch.where(columns, row, task.initial_row())
