"""Area under the ROC curve, from histograms of scores.

The exact area needs all scores in order, and these do not add up. Histograms do: the area is then that of scores
rounded to their bins, to the last digit. Scores are log-odds x = log p / (1 - p), and bins are equal steps of
x / (|x| + 4): fine where most predictions are, and without an end where they are sure.

Two samples in one bin count as a tie. So the area is off by at most half the share of pairs (a sample of the class,
another sample) that share a bin: less than 0.001 for a thousand samples whose log-odds spread by 0.5 or more within 5
of zero. Scores that differ by less than a bin are not told apart. With 2,048 bins that is 0.004 at even odds, 0.01 at
1 : 9 and 0.02 at 1 : 99, so a model that has hardly trained has an area nearer to 0.5 than its scores would give; more
``bins`` help.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.metrics.classification import ClassMetric, flat_samples

SPREAD = 4.0
"""Half of the bins are for log-odds within this distance of 0."""
MOST_NUMBERS = 1 << 22
"""Most numbers that a client may send: 32 MB."""


@dataclass(frozen=True)
class AUC(ClassMetric):
    """The area under the ROC curve: the probability that a sample of a class has a higher score than another sample.

    With two classes it is the area of the second one. With more, it is the mean over classes of each against the rest;
    a class that no sample has, or that all have, does not count.

    Args:
        bins: How many bins the scores of a class are counted in. A client sends two numbers per bin and class.
    """

    bins: Annotated[int, Ge(2)] = 2048

    def sums(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """For each class, how many samples of it are in each bin, and how many others."""
        outputs, targets = flat_samples(outputs, targets)
        scores, labels = self.bin_of(log_odds(outputs)), torch.arange(outputs.shape[1])
        others = (targets.unsqueeze(1) != labels).long()
        if len(labels) == 2:
            scores, others, labels = scores[:, 1:], others[:, 1:], labels[:1]
        places = (2 * labels + others) * self.bins + scores
        return torch.bincount(places.flatten(), minlength=2 * len(labels) * self.bins)

    def value(self, sums: Tensor) -> float:
        """The mean area of the classes that some samples have and others do not; NaN if there is none."""
        positive, negative = sums.view(-1, 2, self.bins).unbind(1)
        pairs = positive.sum(1) * negative.sum(1)
        won = (positive * (negative.cumsum(1) - negative / 2)).sum(1)  # a tie is half a pair
        there = pairs > 0
        return float((won[there] / pairs[there]).mean()) if bool(there.any()) else math.nan

    def bin_of(self, scores: Tensor) -> Tensor:
        """The bin of each log-odds."""
        scores = scores.nan_to_num(0.0).clamp(-1e9, 1e9)
        place = (scores / (scores.abs() + SPREAD) + 1) * (self.bins / 2)
        return place.long().clamp(max=self.bins - 1)

    def check(self, task: Task) -> None:
        """Refuse a task without classes, and more bins than a client can send."""
        super().check(task)
        numbers = 2 * self.bins * task.federation.classes
        if numbers > MOST_NUMBERS:
            raise FedloomError(
                f"metric auc: {self.bins} bins for each of {task.federation.classes:,} classes are {numbers:,} numbers "
                "per client, which is too much: use fewer bins, for instance {name = 'auc', bins = 64}, or macro_f1."
            )


def log_odds(outputs: Tensor) -> Tensor:
    """The log-odds of each class against all others, log p - log (1 - p), also where p is 1 to the last digit."""
    logs = outputs.double().log_softmax(1)
    top = logs.argmax(1, keepdim=True)
    rest = logs.scatter(1, top, -math.inf).logsumexp(1, keepdim=True)
    return logs - torch.log1p(-logs.exp()).scatter(1, top, rest)
