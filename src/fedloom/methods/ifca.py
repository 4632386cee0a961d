"""IFCA: every client gets all models, takes the one with the least loss on its training data, and trains that one.

``j = argmin_j F_k(w_j)``; the server averages, for each j, the models of the clients that chose it. The first model is
the initial row, the others are drawn again by their layers' own ``reset_parameters``. A client predicts with the model
it would choose. With one cluster this is FedAvg.

Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020, https://arxiv.org/abs/2006.04088,
in the form with model averaging.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model, Scalar
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.seeds import key
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task
from fedloom.methods.clustered import FixedClusters, assign_clusters, cluster_means


def chosen_row(message: Message, reply: Mapping[str, Tensor]) -> Tensor:
    """The models that clients chose and trained on."""
    return message["rows"][chosen_models(reply, message["rows"])]


@dataclass(frozen=True)
class IFCA(FixedClusters):
    """Every client gets all models, takes the one with the least loss on its training data, and trains that one.

    Args:
        clusters: How many models there are.
    """

    receives: ClassVar[Declared] = {"rows": Model("the models of all groups")}
    sends: ClassVar[Declared] = {
        "row": Model("the model that the site trained", single=True, of=chosen_row),
        "choice": Scalar("the group whose model fits the site best", single=True),
    }

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        if self.clusters > 1 and not any(hasattr(layer, "reset_parameters") for layer in task.model.modules()):
            raise FedloomError(
                f"ifca starts from models that differ, but no layer of {type(task.model).__name__} can be reset: "
                "give its layers a reset_parameters(), or use fesem."
            )

    def prelude(self, server: State, context: ServerContext) -> Round:
        yield from ()  # no client is asked
        others = [draw_row(context.task, key(context.seed, "ifca", number)) for number in range(1, self.clusters)]
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
        choice = chosen_models(replies.tensors, server["rows"])
        return {
            "rows": cluster_means(server["rows"], replies, choice),
            "cluster": assign_clusters(server, replies, choice),
        }

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return message["rows"][self.choice(message, cohort)]


def chosen_models(reply: Mapping[str, Tensor], rows: Tensor) -> Tensor:
    """The numbers of the models that clients chose, as a place in ``rows``: they may come from another machine."""
    return reply["choice"].long().clamp(0, len(rows) - 1)


def draw_row(task: Task, seed: int) -> Tensor:
    """A row of the task's model with new random values in its trained layers."""
    model = copy.deepcopy(task.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in model.modules():
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()  # type: ignore[operator]
    row, columns = task.layout.row(model), task.layout.trained_columns
    return row if columns is None else torch.where(columns, row, task.initial_row())
