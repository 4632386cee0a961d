"""What metrics of numbers share: targets that are measured values."""

from __future__ import annotations

from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.task import Task
from fedloom.metrics.class_targets import is_measured


class NumberMetric(Metric):
    """A metric of predicted numbers, in the units of the targets."""

    def check(self, task: Task) -> None:
        """Refuse a task whose targets are classes or labels."""
        if not is_measured(task):
            what = "labels: use macro_f1" if task.kind == "labels" else "classes: use accuracy, macro_f1 or auc"
            raise FedloomError(
                f"metric {self.name} needs measured values, but the targets of task {task.name} are {what}."
            )


def errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Predictions minus targets, in double precision."""
    return outputs.double() - targets.view_as(outputs)
