"""FedCon: labels are only at the server; clients make an online network agree with a slowly moving target network.

A client gets the model, trains its body, projection head and predictor (the online network) on its unlabelled images,
and sends them. Of two views it minimises ``2 - cos(p_1, t_2) - cos(p_2, t_1)``, where p are the online network's
predictions and t the projections of the client's target network. After training the target moves:
``target <- momentum * target + (1 - momentum) * online``; it stays with the client. The server takes the mean of the
online networks, trains all of the model on its labelled set for ``server_epochs``, and sends it.

Long et al., FedCon: A Contrastive Framework for Federated Semi-Supervised Learning, 2021,
https://arxiv.org/abs/2109.04533. The target moves once per round here, not at every step. The loss has no negatives:
the client's contrast is one of networks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Model, columns_of_part
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.network import Network
from fedloom.core.settings import Share, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.heads import PREDICTOR, with_predictor
from fedloom.methods.selfsupervised.two_views import TwoViews, projections
from fedloom.methods.shared_columns import all_but_the_head


@dataclass(frozen=True)
class FedCon(TwoViews):
    """Clients without labels make two networks agree; the server averages them and trains with its labels.

    Args:
        projection: How many numbers the projection head makes of an image.
        crop: The smallest share of the image that a view shows; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of colour changes; 0 leaves colours as they are.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
        momentum: How much of its target network a client keeps in each round.
        server_epochs: Epochs of the server on its labelled set in each round.
    """

    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS,)
    receives: ClassVar[Declared] = {
        "encoder": Model("the model's body, its projection head and predictor", columns=all_but_the_head),
        "head": Model("the model's head, trained at the server", columns=columns_of_part("head")),
    }
    sends: ClassVar[Declared] = {
        "encoder": Model("the body, the projection head and the predictor that it trained", columns=all_but_the_head)
    }
    keeps: ClassVar[Kept] = {"target": "the site's target network, a mean of the networks that it trained"}

    momentum: Share = 0.9
    server_epochs: WholeNumber = 1

    def adapt_task(self, task: Task) -> Task:
        return with_predictor(self.name, task, self.projection)

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        federation = task.federation
        if not len(federation.server) or not federation.server_labelled:
            raise FedloomError(
                "fedcon's labels are at the server, but the task has no labelled server set: set task.server_set, for "
                "instance {share = 0.1}."
            )
        if federation.server_is_foreign or federation.server_classes != federation.classes:
            raise FedloomError(
                f"fedcon's server trains the model by the labels of its set, but these are {federation.server_classes} "
                f"classes of its own, and not the {federation.classes} of task {task.name}: use a server set of the "
                "task's own classes, for instance {share = 0.1}."
            )

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message({**super().broadcast(server, ids).shared, "head": server["row"][~server["columns"]]})

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        start = self.weights_for(message, cohort)
        target = cohort.kept_rows("target", start)

        def loss(net: Network, x: Tensor, y: Tensor, given: Mapping[str, dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
            predicted = net.apply(PREDICTOR, projections(net, x))
            wanted = projections(net.at(given["target"]), x).detach().flip(1)
            return 2 - F.cosine_similarity(predicted, wanted, dim=2).sum(1), torch.ones(len(y))

        rows = cohort.train(start, loss=loss, given={"target": target}, augment=self.augmentation.two_views)
        cohort.keep("target", torch.lerp(rows, target, self.momentum))
        return Reply({"encoder": rows[:, self.columns(cohort.task)]})

    def aggregate(self, server: State, replies: Replies) -> State:
        state, context = super().aggregate(server, replies), replies.context
        if not self.server_epochs:
            return state
        work = context.work.for_epochs(self.server_epochs)
        return {
            **state,
            "row": context.train(state["row"], context.task.federation.server, work=work, purpose="fedcon"),
        }

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return cohort.task.layout.put(super().weights_for(message, cohort), "head", message["head"])
