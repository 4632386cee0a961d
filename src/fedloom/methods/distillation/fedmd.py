"""FedMD: clients with models of their own approach the consensus of all models on a public set.

Before its first round a client trains on the public set and then on its own data (transfer learning). A round: clients
send their scores ``f_k(x)`` for the communal samples; the server takes the consensus ``f(x) = sum_k p_k f_k(x)``;
clients train towards it on the communal set (digest, ``mean_c |f_k(x)_c - f(x)_c|``) and then on their own data
(revisit). With one client the consensus is its own: self-distillation.

Li and Wang, FedMD: Heterogenous Federated Learning via Model Distillation, 2019, https://arxiv.org/abs/1910.03581. The
scores are logits and digest minimises their mean absolute difference, as in the authors' code; the paper names no loss.
The paper weights clients alike (``weight_by = "uniform"``) and trains to convergence first: set ``transfer_epochs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.message import Message
from fedloom.core.model.growing_head import of_seen
from fedloom.core.network import Network
from fedloom.core.settings import Count, WholeNumber
from fedloom.core.task import Task
from fedloom.methods.distillation.communal_distillation import CommunalDistillation


@dataclass(frozen=True)
class FedMD(CommunalDistillation):
    """Clients digest the consensus of all models on the communal set, and then revisit their own data.

    Args:
        transfer_epochs: Passes over the labelled communal set before a client's first round; 0 for none.
        digest_epochs: Passes over the communal set in which a client approaches the consensus.
    """

    transfer_epochs: WholeNumber = 1
    digest_epochs: Count = 1

    def check(self, task: Task, work: LocalWork) -> None:
        super().check(task, work)
        if self.transfer_epochs and not task.federation.communal_labelled:
            raise FedloomError(
                "fedmd trains on the communal set first, but its samples have no labels: set transfer_epochs=0."
            )

    def learn(self, cohort: Cohort, rows: Tensor) -> Tensor:
        """Transfer learning of clients that were never asked before; the models of all others as they are."""
        new = ~cohort.has("row")
        if self.transfer_epochs:
            work = cohort.setting.work.for_epochs(self.transfer_epochs)
            rows = cohort.train(rows, work=work, on=self.common_set(cohort), only=new)
        return cohort.train(rows, only=new)

    def distil(self, cohort: Cohort, rows: Tensor, message: Message) -> Tensor:
        """Digest, then revisit."""
        seen = cohort.task.federation.seen
        consensus = of_seen(message["outputs"], seen)

        def digest(net: Network, x: Inputs, y: Tensor, _: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
            apart = (of_seen(net(x), seen) - consensus[y]).abs().flatten(1).mean(1)
            return apart, torch.ones_like(apart)

        work = cohort.setting.work.for_epochs(self.digest_epochs)
        return cohort.train(cohort.train(rows, work=work, on=self.common_set(cohort), loss=digest))
