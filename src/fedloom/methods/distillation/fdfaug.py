"""FD of FD+FAug: clients exchange the mean probabilities of each label, and no communal set is needed.

A client trains by ``CE(F(x), y) + gamma * CE(F(x), mean_j F_j[y])``: the mean over the *other* clients j of what their
models gave to samples of the label y on average. After training it sends its own means ``F_k[label]``. A client's first
round, and labels that no other client has, are without the term. With gamma = 0 this is ``local``.

Jeong et al., Communication-Efficient On-Device Machine Learning: Federated Distillation and Augmentation under Non-IID
Private Data, 2018, https://arxiv.org/abs/1811.11479. FAug, a GAN at the server that makes every client's data IID, is
not here: a label that a client lacks is left out of its means, and the mean is over the clients that have it. F is
softmax of the outputs, as in the paper; means are taken after training where the paper adds them up on the way. The
paper gives no gamma.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Statistic
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.network import Network
from fedloom.core.settings import NonNegative
from fedloom.core.task import Task
from fedloom.methods.distillation.class_means import class_means
from fedloom.methods.distillation.soft_targets import soft_cross_entropy
from fedloom.methods.requirements import require_classes


def means_of_other_holders(means: Tensor, has: Tensor, client: int) -> Tensor:
    """The mean of the other clients' means for each label, labels × classes; zeros for a label that none of them has.

    Args:
        means: Each client's means, clients × labels × classes.
        has: Whether each client has each label, clients × labels.
        client: The client that is left out.
    """
    others = has.clone()
    others[client] = False
    return (means * others.unsqueeze(2)).sum(0) / others.sum(0).clamp(min=1).unsqueeze(1)


@dataclass(frozen=True)
class FDFAug(Algorithm):
    """Clients train towards what other clients' models give to samples of the same label on average.

    Args:
        gamma: Weight of the distillation term; 0 is local training.
    """

    breaks: ClassVar[Facts] = {
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.ONE_MEAN: "takes no mean of what its clients send, but one for each label",
    }
    receives: ClassVar[Declared] = {"means": Statistic("mean probabilities of each label, all other sites")}
    sends: ClassVar[Declared] = {
        "means": Statistic("mean probabilities of its model for each label of its samples", single=True, coded=True),
        "counts": Statistic("number of its samples of each label", single=True, counts=True),
    }
    keeps: ClassVar[Kept] = {"row": "the site's own model"}

    gamma: NonNegative = 0.1

    def check(self, task: Task, work: LocalWork) -> None:
        require_classes("fdfaug", task)

    def start(self, task: Task) -> State:
        clients, classes = task.federation.clients, task.federation.classes
        return {
            "means": torch.zeros(clients, classes, classes),
            "has": torch.zeros(clients, classes, dtype=torch.bool),
        }

    def broadcast(self, server: State, ids: list[int]) -> Message:
        of_each = [means_of_other_holders(server["means"], server["has"], client) for client in ids]
        return Message(each={"means": torch.stack(of_each)})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        objective, seen = cohort.task.objective, cohort.task.federation.seen

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            outputs = net(x)
            values, counts = objective.losses(outputs, y)
            # a label that nobody else has adds 0, since its means are 0; a sample without a label counts 0
            teacher = soft_cross_entropy(outputs, given["means"][y.clamp(min=0)], seen)
            return values + self.gamma * counts * teacher, counts

        rows = cohort.train(self.weights_for(message, cohort), loss=loss, given={"means": message["means"]})
        cohort.keep("row", rows)
        return Reply({"means": class_means(cohort, rows, torch.softmax), "counts": cohort.classes().float()})

    def aggregate(self, server: State, replies: Replies) -> State:
        ids = torch.tensor(replies.ids)
        means, has = server["means"].clone(), server["has"].clone()
        means[ids], has[ids] = replies["means"], replies["counts"] > 0
        return {"means": means, "has": has}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("row", cohort.spread(cohort.task.initial_row()))
