"""Clients that differ in what they predict may agree on what they see: methods on features, the input of the head.

MOON (Li et al., CVPR 2021) adds a contrastive term: features shall be like the global model's and unlike those of the
client's last model; we take the model's own features and add no projection head. FedProto (Tan et al., AAAI 2022)
exchanges nothing but mean features per class. Corrected there: equation 6 divides a mean that is already weighted by
the number of clients once more, which would shrink every prototype. As in its authors' code, the distance of features
is a mean over their entries, which is what the paper's lam = 1 goes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.network import Network
from fedloom.core.task import Task
from fedloom.methods.fedavg import FedAvg

Given = Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True)
class MOON(FedAvg):
    """FedAvg whose clients keep their features near the received model's and away from their own last model's.

    Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021. Added to the loss of each sample:
    ``-mu * log(exp(s_w / t) / (exp(s_w / t) + exp(s_p / t)))`` with the temperature t and the cosines s_w and s_p
    between its features and those under the received and the last model. A client's first round is FedAvg's; with
    mu = 0 all are.
    """

    mu: float = 1.0
    temperature: float = 0.5

    def __post_init__(self) -> None:
        if not self.mu >= 0:
            raise FedloomError(f"mu={self.mu}: the weight of the contrastive term must not be negative.")
        if not self.temperature > 0:
            raise FedloomError(f"temperature={self.temperature}: it must be a positive number.")

    @property
    def compiles(self) -> bool:
        return False

    def check(self, task: Task, work: LocalWork) -> None:
        _has_features("moon", task)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        received, objective = cohort.spread(message["row"]), cohort.task.objective

        def loss(net: Network, x: Tensor, y: Tensor, given: Given) -> tuple[Tensor, Tensor]:
            values, counts = objective.losses(net(x), y)
            z = net.at({}).features(x).flatten(1)  # a pass anew: the same units are dropped in all of them
            near, far = (
                F.cosine_similarity(z, net.at(given[name]).features(x).flatten(1)) for name in ("received", "last")
            )
            return values + self.mu * counts * F.softplus((far - near) / self.temperature), counts

        rows = cohort.train(
            received, loss=loss, given={"received": received, "last": cohort.kept_rows("last", received)}
        )
        cohort.keep("last", rows)
        return Reply({"row": rows})


def _has_features(name: str, task: Task) -> None:
    model = task.model
    if not (hasattr(model, "features") or isinstance(model, nn.Sequential)):
        raise FedloomError(
            f"{name} works on what the head sees, and {type(model).__name__} does not tell: give it a features method."
        )
    if set(task.layout.parts) == {"head"}:
        raise FedloomError(
            f"{name} works on what the head sees, and {type(model).__name__} is all head: use a deeper model."
        )
