"""HeteroFL: clients train narrow versions of one wide network, as wide as their devices can train.

A client's model is the corner of the server's: the first units of every layer (``core/model/corners.py``). It gets
these weights only, and sends them back. Every entry of the wide model becomes the mean over the clients that have it,
``w[e] = sum_k p_k w_k[e] / sum_k p_k`` over k with e in their corner; an entry that no client of the round has stays as
it is. With one width it is FedAvg. ``task.models`` names the widths: ``{"resnet8:widths=[16,32,64]" = 0.5,
"resnet8:widths=[8,16,32]" = 0.5}``; the first is the server's, and the widest.

Diao, Ding and Tarokh, HeteroFL: Computation and Communication Efficient Federated Learning for Heterogeneous Clients,
ICLR 2021, https://arxiv.org/abs/2010.01264. There, means count clients; here they have the run's weights, of which
``weight_by = uniform`` is the paper's. The paper scales the outputs of narrow layers by their share of the width and
has batch statistics only for evaluation: nothing is scaled here, and our networks have GroupNorm, which undoes a scale.
With ``masked`` the authors' server averages an output's weights over the clients that have its class; ours is not told
which these are, and averages over all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.network import Network
from fedloom.core.task import Task
from fedloom.methods.corner_averaging import CornerAveraging


@dataclass(frozen=True)
class HeteroFL(CornerAveraging):
    """Clients train corners of one wide network; every weight is averaged over those who have it.

    Args:
        masked: Whether a client's outputs for classes that it has no samples of are 0 in its training, so that it
            leaves the weights of these outputs as they were; the paper does so where labels differ between clients.
    """

    masked: bool = False

    def check(self, task: Task, work: LocalWork) -> None:
        if self.masked and not task.classifies:
            raise FedloomError("heterofl: masked=true leaves out classes, but this task has none: leave it out.")
        super().check(task, work)

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = cohort.spread(message["row"])
        if not self.masked:
            return Reply({"row": cohort.train(rows)})
        objective = cohort.task.objective

        def loss(net: Network, x: Inputs, y: Tensor, given: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
            return objective.losses(net(x) * given["has"], y)

        return Reply({"row": cohort.train(rows, loss=loss, given={"has": (cohort.classes() > 0).float()})})
