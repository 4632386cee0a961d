"""Six clients in three chains, and what a chain makes of a row by hand: for FedSeq and FedSeqInter."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import WORK
from support.synthetic import federation, mlp

SIZES = [33, 9, 50, 20, 28, 17]
CHAINS = [[4, 0, 2], [1, 3], [5]]


def six_clients() -> Task:
    """Six clients of unequal sizes and a small network."""
    return Task("t", federation(SIZES), mlp())


@cache
def trainer(execution: str) -> LocalTrainer:
    """A trainer of the six clients."""
    return LocalTrainer(six_clients(), execution)


def row_after_chain(
    row: torch.Tensor, chain: list[int], number: int = 1, turn: int = 0, execution: str = "vectorised", **how: Any
) -> torch.Tensor:
    """A row after a chain in a round, by hand: one client's training after the other."""
    for client in chain:
        some = Cohort([client], trainer(execution), RunSetting(LocalWork(**WORK), 3, 3), number, turn=turn)
        row = some.train(row.view(1, -1), **how)[0]
    return row
