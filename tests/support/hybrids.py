"""A first round of the hybrids of FedAvg and LG-FedAvg."""

from __future__ import annotations

import torch

import fedloom as fl
from fedloom.core.cohort import Cohort
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.methods.fedhybridavglg import FedHybridAvgLG
from support.checkpoints import WORK
from support.synthetic import cohort


def first_round(
    method: FedHybridAvgLG, task: Task, execution: str = "vectorised"
) -> tuple[Cohort, fl.Reply, fl.Message]:
    """A first round of all clients, from a global row that is not the initial one."""
    row = task.initial_row() + 0.1 * torch.randn(task.layout.width, generator=torch.Generator().manual_seed(5))
    everyone, message = cohort(task, execution, LocalWork(**WORK)), fl.Message({"row": row})
    return everyone, method.client_update(everyone, message), message
