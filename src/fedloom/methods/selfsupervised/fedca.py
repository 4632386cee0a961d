"""FedCA: FedSimCLR with a dictionary of all clients' representations and with alignment to a base model.

Two terms change what clients minimise. The dictionary holds representations of some images of the clients of the last
round; they are more negatives of NT-Xent. The base model is trained by SimCLR on the communal set before the first
round; ``+ alignment * |z / |z| - b / |b||^2`` keeps projections z near the base model's projections b of the same view.
With both off this is FedSimCLR.

Zhang et al., Federated Unsupervised Representation Learning, 2020, https://arxiv.org/abs/2010.08982. Here a client
sends the representations of ``dictionary`` of its images, drawn anew in each round, and the dictionary is that of one
round. The base model goes down in every round, since a client keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model, Statistic
from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.network import Network
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import NonNegative, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.selfsupervised.contrast import nt_xent
from fedloom.methods.selfsupervised.fedsimclr import FedSimCLR
from fedloom.methods.selfsupervised.heads import PROJECTION
from fedloom.methods.selfsupervised.two_views import projections
from fedloom.methods.shared_columns import all_but_the_head


@dataclass(frozen=True)
class FedCA(FedSimCLR):
    """FedSimCLR with a shared dictionary of negatives and with alignment to a base model trained on public data.

    Args:
        projection: How many numbers the projection head makes of an image.
        crop: The smallest share of the image that a view shows; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of colour changes; 0 leaves colours as they are.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
        temperature: The temperature of NT-Xent.
        dictionary: How many images of each client are in the dictionary; 0 has none.
        alignment: Weight of the distance to the base model's projections; 0 needs no base model.
        base_epochs: Epochs of the base model on the communal set.
    """

    receives: ClassVar[Declared] = {
        "encoder": Model("the model's body and its projection head", columns=all_but_the_head),
        "base": Model("the same of the base model, trained on the communal set", columns=all_but_the_head),
        "dictionary": Statistic("projections of images of the last round's sites"),
    }
    sends: ClassVar[Declared] = {
        "encoder": Model("the body and the projection head that the site trained", columns=all_but_the_head),
        "representations": Statistic("projections of some of its images", single=True),
    }

    dictionary: WholeNumber = 64
    alignment: NonNegative = 0.01
    base_epochs: WholeNumber = 10

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        if self.alignment and not len(task.federation.communal):
            raise FedloomError(
                "fedca aligns clients with a base model that is trained on the communal set, but the task has none: "
                "set task.communal = 0.1, or alignment = 0."
            )

    def start(self, task: Task) -> State:
        state = dict(super().start(task))
        if self.dictionary:
            state["dictionary"] = torch.zeros(0, self.projection)
        return state | ({"base": state["row"]} if self.alignment else {})

    def prelude(self, server: State, context: ServerContext) -> Round | None:
        return self._train_base(server, context) if self.alignment and self.base_epochs else None

    def _train_base(self, server: State, context: ServerContext) -> Round:
        yield from ()  # no client is asked
        base = context.train(
            server["base"],
            context.task.federation.communal,
            work=context.work.for_epochs(self.base_epochs),
            loss=self.local_loss,
            augment=self.augmentation.two_views,
            purpose="fedca base",
        )
        return {**server, "base": base}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        sent = dict(super().broadcast(server, ids).shared)
        sent |= {"base": server["base"][server["columns"]]} if self.alignment else {}
        return Message(sent | ({"dictionary": server["dictionary"]} if self.dictionary else {}))

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        negatives = message["dictionary"] if self.dictionary else None
        start = self.weights_for(message, cohort)
        given: dict[str, Tensor] = {}
        if self.alignment:
            given["base"] = start.clone()
            given["base"][:, self.columns(cohort.task)] = message["base"]

        def loss(net: Network, x: Tensor, y: Tensor, given: Mapping[str, dict[str, Tensor]]) -> tuple[Tensor, Tensor]:
            z = projections(net, x)
            values = nt_xent(z, net.mask, self.temperature, negatives)
            if self.alignment:
                near = F.cosine_similarity(z, projections(net.at(given["base"]), x), dim=2)
                values = values + self.alignment * (2 - 2 * near).mean(1)
            return values, torch.ones(len(y))

        rows = cohort.train(start, loss=loss, given=given, augment=self.augmentation.two_views)
        sent = {"encoder": rows[:, self.columns(cohort.task)]}
        if not self.dictionary:
            return Reply(sent)
        found = [self._representations(cohort, rows[place], place) for place in range(len(cohort))]
        counts = torch.tensor([len(z) for z in found])
        sent["representations"] = torch.stack([F.pad(z, (0, 0, 0, self.dictionary - len(z))) for z in found])
        return Reply(sent, bytes=sent["encoder"][0].nbytes + counts * 4 * self.projection)

    def _representations(self, cohort: Cohort, row: Tensor, place: int) -> Tensor:
        """The normalised projections of some of a client's images, as they are."""
        own = cohort.task.federation.train[cohort.ids[place]]
        drawn = torch.randperm(len(own), generator=cohort.generator("fedca dictionary", place))[: self.dictionary]
        features = cohort.trainer.features(row, own[drawn.sort().values])
        head = cohort.task.model.get_submodule(PROJECTION)
        tensors = cohort.task.layout.views(row)
        own_head = {name: tensors[f"{PROJECTION}.{name}"] for name, _ in head.named_parameters()}
        return F.normalize(torch.func.functional_call(head, own_head, (features,)), dim=1)

    def aggregate(self, server: State, replies: Replies) -> State:
        state = dict(super().aggregate(server, replies))
        if self.dictionary:
            entries = replies["representations"].flatten(0, 1)
            state["dictionary"] = entries[entries.square().sum(1) > 0]  # the rest fills up clients with fewer images
        return state
