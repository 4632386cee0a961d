"""Mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.task import Task
from fedloom.metrics.class_targets import has_classes


@dataclass(frozen=True)
class MAE(Metric):
    """The mean absolute difference between prediction and target, over samples and their components."""

    higher_is_better: ClassVar[bool] = False

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The sum of absolute differences, and their number."""
        distances = (outputs.double() - targets.view_as(outputs)).abs()
        return torch.stack([distances.sum(), distances.new_tensor(distances.numel())])

    def check(self, task: Task) -> None:
        """Refuse a task whose targets are classes."""
        if has_classes(task):
            raise FedloomError(
                f"metric {self.name} needs measured values, but the targets of task {task.name} are classes: use "
                "accuracy, macro_f1 or auc."
            )
