"""FedProto: clients keep their models and exchange prototypes, the mean features of each class.

A client adds ``lam * |features - prototype of the class|^2 / features`` to the loss of each sample whose class has a
global prototype, and sends the means of its own classes and their counts. The server averages each class by counts and
keeps the prototypes of classes that nobody sent. Clients predict with their own models (the paper may also take the
nearest prototype). With lam = 0 this is ``local``.

Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI 2022,
https://arxiv.org/abs/2105.00243. Corrected: equation 6 divides a mean that is already weighted by the number of clients
once more, which would shrink every prototype. As in the authors' code, the distance is a mean over the entries of the
features, which is what the paper's lam = 1 goes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.network import Network, feature_width
from fedloom.core.settings import NonNegative
from fedloom.core.targets import IGNORED, label_mask
from fedloom.core.task import Task
from fedloom.methods.distillation.class_means import mean_by_class
from fedloom.methods.requirements import require_equal_features, require_features


@dataclass(frozen=True)
class FedProto(Algorithm):
    """Clients keep their models and exchange prototypes, the mean features of each class.

    Args:
        lam: Weight of the distance to the prototypes; 0 is local training.
    """

    breaks: ClassVar[Facts] = {
        Fact.SHARED_PREDICTION: "gives every client an entirely personal model",
        Fact.SHARED_MODEL: "has no model that clients share",
    }
    receives: ClassVar[Declared] = {
        "classes": Statistic("the classes of the prototypes"),
        "prototypes": Statistic("mean features of each class, all sites"),
    }
    sends: ClassVar[Declared] = {
        "prototypes": Statistic("mean features of each class of its samples", single=True),
        "counts": Statistic("number of its samples of each class", single=True, counts=True),
    }
    keeps: ClassVar[Kept] = {"row": "the site's own model"}

    lam: NonNegative = 1.0

    def check(self, task: Task, work: LocalWork) -> None:
        require_features("fedproto", task)
        if not task.classifies:
            raise FedloomError("fedproto averages features by class, but this task has no class per sample: use moon.")
        require_equal_features("fedproto", task)

    def start(self, task: Task) -> State:
        width = feature_width(task)
        classes = task.federation.classes
        return {"prototypes": torch.zeros(classes, width), "known": torch.zeros(classes, dtype=torch.bool)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        known = server["known"]
        return Message({"classes": known.nonzero().flatten().int(), "prototypes": server["prototypes"][known]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        classes, width, objective = (
            cohort.task.federation.classes,
            message["prototypes"].shape[1],
            cohort.task.objective,
        )
        goals, known = torch.zeros(classes, width), torch.zeros(classes)
        goals[message["classes"]], known[message["classes"]] = message["prototypes"], 1.0

        def loss(net: Network, x: Inputs, y: Tensor, _: Mapping[str, Mapping[str, Tensor]]) -> tuple[Tensor, Tensor]:
            values, counts = objective.losses(net(x), y)
            label = y.clamp(min=0)  # a sample without a label has no prototype
            apart = (net.at({}).features(x).flatten(1) - goals[label]).square().mean(1)
            return values + self.lam * (known[label] * label_mask(y)) * apart, counts

        rows = cohort.train(self.weights_for(message, cohort), loss=loss)
        cohort.keep("row", rows)
        counts = cohort.classes().float()
        sums = torch.stack([self._sums(cohort, rows[place], place, classes) for place in range(len(cohort))])
        sent = (counts > 0).sum(1) * 4 * (width + 2)  # for each class of the client: prototype, count, number
        return Reply({"prototypes": sums / counts.clamp(min=1).unsqueeze(2), "counts": counts}, bytes=sent)

    def _sums(self, cohort: Cohort, row: Tensor, place: int, classes: int) -> Tensor:
        features, labels = cohort.features(row, place)
        known = labels != IGNORED
        return torch.zeros(classes, features.shape[1]).index_add_(0, labels[known], features[known])

    def aggregate(self, server: State, replies: Replies) -> State:
        means, seen = mean_by_class(replies, "prototypes", "counts")
        prototypes = torch.where(seen.unsqueeze(1), means, server["prototypes"])
        return {"prototypes": prototypes, "known": server["known"] | seen}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.kept_rows("row", cohort.spread(cohort.task.initial_row()))
