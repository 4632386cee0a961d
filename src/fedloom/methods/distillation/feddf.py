"""FedDF: FedAvg whose server distils the ensemble of its clients' models into the average.

``w <- sum_k p_k w_k`` as in FedAvg; then w is trained by ``KL(softmax(mean_k f(w_k, x)) || softmax(f(w, x)))`` on
samples x that the server has, whose labels are not used: its own set (``task.server_set``) if the task has one, else
the communal set. Where clients have different architectures there is a model of each: the mean of its own clients'
models, distilled from the ensemble of all clients.

Lin, Kong, Stich and Jaggi, Ensemble Distillation for Robust Model Fusion in Federated Learning, NeurIPS 2020,
https://arxiv.org/abs/2006.07242. As there the ensemble is the plain mean of logits and the server's optimiser is Adam;
its learning rate is constant here, and it makes ``epochs`` passes where the paper stops by a validation set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Round, State
from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Replies, Wave
from fedloom.core.network import collect_outputs
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Positive, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.distillation.dsfl import towards
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.requirements import require_classes


def server_samples(task: Task) -> Tensor:
    """The positions of the samples that a server has: its own set, or else the communal set."""
    own = task.federation.server
    return own if len(own) else task.federation.communal


@dataclass(frozen=True)
class FedDF(FedAvg):
    """FedAvg whose server distils the ensemble of its clients' models into the average.

    Args:
        epochs: Passes over the server's samples in a round.
        lr: The learning rate of the server's Adam.
        batch_size: Samples per step of the server.
    """

    grants: ClassVar[Collection[Fact]] = (
        Fact.ONLY_TRAINING,
        Fact.MIXED_MODELS,
    )

    epochs: WholeNumber = 1
    lr: Positive = 0.001
    batch_size: WholeNumber = 128

    @property
    def server_work(self) -> LocalWork:
        """How the server distils."""
        return LocalWork(epochs=self.epochs, optimizer="adam", lr=self.lr, batch_size=self.batch_size)

    @property
    def breaks(self) -> Facts:  # type: ignore[override]  # without epochs it is FedAvg
        found = {Fact.OWN_PREDICTION: "lets clients predict with the model that they receive"}
        return found | ({Fact.MEAN_EVERY_ROUND: "ends its rounds with a distilled model"} if self.epochs else {})

    def check(self, task: Task, work: LocalWork) -> None:
        require_classes("feddf", task)
        if not len(server_samples(task)):
            raise FedloomError(
                f"feddf distils on samples that the server has, but task {task.name} has none: set task.server_set or "
                "task.communal, for instance to 0.2."
            )

    def start(self, task: Task) -> State:
        if task.architectures is None:
            return super().start(task)
        return {f"row/{number}": own.initial_row() for number, own in enumerate(task.by_architecture)}

    def broadcast(self, server: State, ids: list[int]) -> Message:
        return Message(dict(server))

    def play(self, server: State, ids: list[int], context: ServerContext) -> Round:
        architectures = context.task.architectures
        parts = {0: ids} if architectures is None else architectures.split(ids)
        names = {number: "row" if architectures is None else f"row/{number}" for number in parts}
        replies: dict[int, Replies] = {}
        for number, some in parts.items():
            replies[number] = yield Wave(some, Message({"row": server[names[number]]}))
        samples = server_samples(context.task)
        teacher = ensemble(context, {number: one["row"] for number, one in replies.items()}, samples)
        rows = {
            names[number]: context.of_architecture(number).train(
                one.mean("row", group=None if architectures is None else number),
                samples,
                work=self.server_work,
                loss=towards(teacher, context.task.federation.seen),
                purpose=f"feddf/{number}",
            )
            for number, one in replies.items()
        }
        return {**server, **rows}

    def weights_for(self, message: Message, cohort: Cohort) -> Tensor:
        return message["row"] if "row" in message else message[f"row/{cohort.task.architecture}"]


def ensemble(context: ServerContext, rows: Mapping[int, Tensor], samples: Tensor) -> Tensor:
    """The probabilities of the mean of all models' logits for some samples: n×classes.

    Args:
        context: What the server may use.
        rows: Clients' models, by their architecture.
        samples: The positions of the samples.
    """
    logits = [
        context.of_architecture(number).trainer.collect(some, samples, collect_outputs)["outputs"]
        for number, some in rows.items()
    ]
    return torch.softmax(torch.cat(logits).mean(0), dim=1)
