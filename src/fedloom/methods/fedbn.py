"""FedBN: BatchNorm layers stay with their clients, everything else is averaged.

``w <- sum_k p_k w_k`` in all columns but those of BatchNorm layers; each client keeps its scales, shifts and running
statistics, and predicts with them and the new shared weights.

Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021,
https://arxiv.org/abs/2102.07623. It has no settings. The authors' code weights all clients alike; means here are
weighted as the run says. A client that never trained, a new one or one that was never selected, has the BatchNorm of
the initial model, whose statistics fit no data: the stage ``finetune`` gives it its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedloom.core.cohort import Cohort
from fedloom.core.declarations import Declared, Kept, Model
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message, Reply
from fedloom.core.task import Task
from fedloom.methods.shared_columns import SharedColumns


def outside_batchnorm(task: Task) -> Tensor:
    """A mask over a row's columns that is false where a BatchNorm layer lies."""
    norms = {n for n, layer in task.model.named_modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)}
    shared = [torch.full((s.stop - s.start,), s.name.rpartition(".")[0] not in norms) for s in task.layout.slots]
    return torch.cat(shared)


@dataclass(frozen=True)
class FedBN(SharedColumns):
    """FedAvg of everything but the BatchNorm layers, which stay with their clients."""

    needs: ClassVar[Facts] = {
        Fact.BATCHNORM: "keeps BatchNorm layers with their clients: use a model with BatchNorm, or fedavg, which this "
        "is without"
    }
    breaks: ClassVar[Facts] = {
        Fact.WHOLE_MODEL: "shares a part of the model only",
        Fact.SEPARATE_SAMPLES: "trains with BatchNorm, which mixes the samples of a batch",
    }
    grants: ClassVar[Collection[Fact]] = (Fact.ONLY_MEANS, Fact.ONLY_TRAINING)
    shared: ClassVar[str] = "others"
    receives: ClassVar[Declared] = {"others": Model("all but the BatchNorm layers", columns=outside_batchnorm)}
    sends: ClassVar[Declared] = {
        "others": Model("all but the BatchNorm layers, as the site trained it", columns=outside_batchnorm)
    }
    keeps: ClassVar[Kept] = {"batchnorm": "the BatchNorm layers, as the site trained them, with their statistics"}

    def check(self, task: Task, work: LocalWork) -> None:
        if not self.columns(task).any():
            raise FedloomError(f"fedbn: {type(task.model).__name__} is all BatchNorm, so nothing is shared: use local.")

    def client_update(self, cohort: Cohort, message: Message) -> Reply:
        rows, shared = cohort.train(self.weights_for(message, cohort)), self.columns(cohort.task)
        cohort.keep("batchnorm", rows[:, ~shared])
        return Reply({"others": rows[:, shared]})

    def own_rows(self, cohort: Cohort) -> Tensor:
        rows, shared = super().own_rows(cohort).clone(), self.columns(cohort.task)
        rows[:, ~shared] = cohort.kept_rows("batchnorm", rows[:, ~shared])
        return rows
