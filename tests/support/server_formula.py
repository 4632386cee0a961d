"""FedAvg whose server moves by a formula that a test writes out (Reddi et al., Algorithm 2), in double precision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort, RunSetting
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.training.local_trainer import LocalTrainer
from support.checkpoints import WORK, final_row
from support.synthetic import SIZES, distance, small_task

Formula = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""From the mean change, the first and the second moment to the server's move and the new moments."""


def check_three_rounds_follow(formula: Formula, method: str, folder: Path) -> None:
    """Three rounds of a method end where three rounds of FedAvg with the formula end."""
    task, shares = small_task(), torch.tensor(SIZES) / sum(SIZES)
    row = task.initial_row().double()
    moment, second = torch.zeros_like(row), torch.full_like(row, 1e-6)
    for number in (1, 2, 3):
        change = (shares @ _train_round(task, row.float(), number)).double() - row
        move, moment, second = formula(change, moment, second)
        row = row + move
    assert distance(row.float(), final_row(folder, method, task)) < 1e-4


def _train_round(task: Task, row: Tensor, number: int) -> Tensor:
    everyone = Cohort(list(range(4)), LocalTrainer(task, "vectorised"), RunSetting(LocalWork(**WORK), 3, 3), number)
    return everyone.train(everyone.spread(row))
