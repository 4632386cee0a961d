"""MOON: FedAvg with a contrastive term on features, the input of the head.

Added to the loss of each sample: ``-mu * log(exp(s_w / t) / (exp(s_w / t) + exp(s_p / t)))`` with the temperature t and
the cosines s_w and s_p between its features and those under the received and the client's last model. Features stay
near the received model's and away from the last local model's. A client's first round is FedAvg's; with mu = 0 all are.

Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021, https://arxiv.org/abs/2103.16257. The paper's models
have a projection head between encoder and output layer, so that the features are its outputs: choose a model with
linear layers below its head. ``projection`` adds a head of its own beside the classifier instead, whose outputs are
compared in the place of features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Kept
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.network import Network
from fedloom.core.settings import NonNegative, Positive, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.requirements import require_features
from fedloom.methods.selfsupervised.contrast import model_contrast
from fedloom.methods.selfsupervised.heads import PROJECTION, with_projection

Given = Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True)
class MOON(FedAvg):
    """FedAvg whose clients keep their features near the received model's and away from their own last model's.

    Args:
        mu: Weight of the contrastive term; 0 is FedAvg.
        temperature: Temperature of the contrastive term.
        projection: Outputs of a projection head, which are compared instead of features; 0 adds none.
    """

    keeps: ClassVar[Kept] = {"last": "the model that the site trained last"}

    mu: NonNegative = 1.0
    temperature: Positive = 0.5
    projection: WholeNumber = 0

    def adapt_task(self, task: Task) -> Task:
        return with_projection("moon", task, self.projection) if self.projection else task

    def check(self, task: Task, work: LocalWork) -> None:
        require_features("moon", task)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received, objective = cohort.spread(message["row"]), cohort.task.objective

        def loss(net: Network, x: Inputs, y: Tensor, given: Given) -> tuple[Tensor, Tensor]:
            values, counts = objective.losses(net(x), y)
            z = self._representation(net.at({}), x)  # a second pass, so that all three drop the same units
            near, far = (self._representation(net.at(given[name]), x) for name in ("received", "last"))
            return values + self.mu * counts * model_contrast(z, near, far, self.temperature), counts

        rows = cohort.train(
            received, loss=loss, given={"received": received, "last": cohort.kept_rows("last", received)}
        )
        cohort.keep("last", rows)
        return Reply({"row": rows})

    def _representation(self, net: Network, x: Inputs) -> Tensor:
        """What is compared of a model: its features, or their projections."""
        z = net.features(x).flatten(1)
        return net.apply(PROJECTION, z) if self.projection else z
