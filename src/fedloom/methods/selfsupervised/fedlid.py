"""FedLID: clients train with labels, and after each mean the server trains the body without labels, by SimCLR.

A round is FedAvg's, ``w <- sum_k p_k w_k``; then the server replaces the classifier by a projection head of its own,
minimises NT-Xent on its unlabelled set, and sends the new body with the averaged classifier. The projection head stays
at the server and continues in the next round. ``server_loss = "supervised"`` is the baseline that the study compares
with: the server has a classifier of its own in the projection head's place and trains by the labels of its set, of
which it uses ``share``. With ``server_epochs = 0`` this is FedAvg.

Psaltis, Federated, Multi-agent, Deep Reinforcement Learning (a thesis, 2024; no public link known), chapter 8. It
does not say what becomes of the two heads: averaging body and classifier and keeping the classifier aside while the
server trains is ours. Its equation 8.2 lacks the minus of NT-Xent. It trains 60 epochs at the server and projects to
126 numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedloom.core.algorithm import State
from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Model
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Reply
from fedloom.core.model.adapted_model import add_modules, model_columns
from fedloom.core.network import Loss, Network, feature_width
from fedloom.core.seeds import generator
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Count, Positive, PositiveShare, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.requirements import require_features
from fedloom.methods.selfsupervised.two_views import TwoViews, simclr_loss

CLASSIFIER = "server_classifier"
"""The name of a supervised server's own classifier."""


@dataclass(frozen=True)
class FedLID(TwoViews):
    """FedAvg whose server trains the body on a set of its own after each mean, by SimCLR.

    Args:
        projection: How many numbers the projection head makes of an image.
        crop: The smallest share of the image that a view shows; 1 does not crop.
        flip: How often a view is mirrored.
        jitter: Strength of colour changes; 0 leaves colours as they are.
        grayscale: How often a view is grey.
        blur: How often a view is blurred.
        temperature: The temperature of NT-Xent.
        server_loss: How the server trains: ``simclr``, or ``supervised`` by the labels of its set.
        server_epochs: Epochs of the server in each round; 0 is FedAvg.
        server_lr: The server's learning rate; None is that of the run's local work.
        server_batch: How many images a step of the server has.
        share: The share of the server's set that it uses.
    """

    shared: ClassVar[str] = "model"
    receives: ClassVar[Declared] = {"model": Model("the model's body and classifier", columns=model_columns)}
    sends: ClassVar[Declared] = {
        "model": Model("the body and the classifier that the site trained", columns=model_columns)
    }

    projection: Count = 126
    temperature: Positive = 0.5
    server_loss: Literal["simclr", "supervised"] = "simclr"
    server_epochs: WholeNumber = 60
    server_lr: Positive | None = None
    server_batch: WholeNumber = 256
    share: PositiveShare = 1.0

    @property
    def compares_views(self) -> bool:
        return bool(self.server_epochs) and self.server_loss == "simclr"

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]  # without server epochs a whole model travels
        whole = () if self.server_epochs else (Fact.MODEL_PARTS,)
        return (Fact.ONLY_MEANS, Fact.ONLY_TRAINING, *whole)

    def adapt_task(self, task: Task) -> Task:
        if not self.server_epochs:
            return task
        if self.server_loss == "simclr":
            return super().adapt_task(task)
        require_features(self.name, task)
        return add_modules(task, lambda: {CLASSIFIER: nn.Linear(feature_width(task), task.federation.server_classes)})

    def check(self, task: Task, work: LocalWork) -> None:
        if not self.server_epochs:
            return
        if not len(task.federation.server):
            raise FedloomError(
                "fedlid's server trains on a set of its own, but the task has none: set task.server_set, for instance "
                "{share = 0.1}, or server_epochs = 0."
            )
        if self.server_loss == "supervised" and not task.federation.server_labelled:
            raise FedloomError(
                "server_loss=supervised needs the labels of the server's set, but it has none: give task.server_set "
                "samples with targets (and no labelled = false), or set server_loss = simclr."
            )

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows = cohort.train(self.weights_for(message, cohort))
        return Reply({"model": rows[:, self.columns(cohort.task)]})

    def aggregate(self, server: State, replies: Replies) -> State:
        state, context = super().aggregate(server, replies), replies.context
        if not self.server_epochs:
            return state
        trained = self._train_at_server(state["row"], context)
        row = torch.where(context.layout.columns("head"), state["row"], trained)  # the classifier was kept aside
        return {**state, "row": row}

    def _train_at_server(self, row: Tensor, context: ServerContext) -> Tensor:
        own = share_of(context.task.federation.server, self.share, context.seed)
        work = replace(
            context.work.for_epochs(self.server_epochs),
            batch_size=self.server_batch,
            lr=context.work.lr if self.server_lr is None else self.server_lr,
        )
        if self.server_loss == "supervised":
            return context.train(row, own, work=work, loss=_classify(context.task.targets(own)), purpose="fedlid")
        return context.train(
            row,
            own,
            work=work,
            loss=simclr_loss(self.temperature),
            augment=self.augmentation.two_views,
            purpose="fedlid",
        )


def share_of(positions: Tensor, share: float, seed: int) -> Tensor:
    """Some of the positions, sorted: the same ones in every round, and among those of any larger share.

    Args:
        positions: Positions of samples.
    """
    if share == 1:
        return positions
    order = torch.randperm(len(positions), generator=generator(seed, "fedlid share"))
    return positions[order[: max(1, round(share * len(positions)))].sort().values]


def _classify(labels: Tensor) -> Loss:
    """Cross-entropy of the server's own classifier; targets are places in the server's set."""

    def loss(net: Network, x: Tensor, y: Tensor, _: Any) -> tuple[Tensor, Tensor]:
        outputs = net.apply(CLASSIFIER, net.features(x).flatten(1))
        return F.cross_entropy(outputs, labels[y], reduction="none"), torch.ones(len(y))

    return loss
