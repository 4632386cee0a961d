"""What metrics of classes share: targets that are numbers of classes, one per sample or per position of a sequence."""

from __future__ import annotations

from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.metric import Metric
from fedloom.core.task import IGNORED, SquaredError, Task


def has_classes(task: Task) -> bool:
    """Whether a task's targets are numbers of classes."""
    measured = task.federation.columns["y"].is_floating_point() or isinstance(task.objective, SquaredError)
    return not measured


class ClassMetric(Metric):
    """A metric of predicted classes; its values are shares."""

    is_share = True

    def check(self, task: Task) -> None:
        """Refuse a task whose targets are measured values."""
        if not has_classes(task):
            raise FedloomError(
                f"metric {self.name} needs classes, but the targets of task {task.name} are measured values: use mae."
            )


def flat_samples(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The outputs (n×classes) and targets (n) of all samples, or of all positions that count."""
    outputs, targets = outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1)
    counts = targets != IGNORED
    return outputs[counts], targets[counts]
