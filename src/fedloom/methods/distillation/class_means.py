"""The mean outputs of a client's model for each class of its own samples: knowledge that needs no common set."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedloom.core.cohort import Cohort
from fedloom.core.message import Replies
from fedloom.core.network import collect_outputs


def class_means(cohort: Cohort, rows: Tensor, of: Callable[..., Tensor] | None = None) -> Tensor:
    """Mean outputs by class, B × classes × outputs; zeros for a class of which a client has no sample.

    Args:
        cohort: The clients.
        rows: A row per client.
        of: ``of(outputs, dim=1)``, what is averaged instead of the outputs (``torch.softmax``).
    """
    counts, means = cohort.classes(), []
    for place, of_client in enumerate(cohort.collect_own(rows, collect_outputs)):
        found = of_client["outputs"] if of is None else of(of_client["outputs"], dim=1)
        labels = cohort.task.targets(cohort.task.federation.train[cohort.ids[place]])
        sums = torch.zeros(counts.shape[1], found.shape[1]).index_add_(0, labels[labels >= 0], found[labels >= 0])
        means.append(sums / counts[place].clamp(min=1).unsqueeze(1))
    return torch.stack(means)


def mean_by_class(replies: Replies, means: str, counts: str) -> tuple[Tensor, Tensor]:
    """The mean of clients' class means, weighted by their counts, and which classes anybody has.

    Args:
        replies: What the clients sent.
        means: The name of their class means, B × classes × outputs.
        counts: The name of their numbers of samples of each class, B × classes.
    """
    most = replies.samples.unsqueeze(1)  # no class has more samples than the client
    found, numbers = torch.zeros_like(replies[means][0]), replies[counts].clamp(min=0).minimum(most)
    known = numbers.sum(0) > 0
    for label in known.nonzero().flatten().tolist():
        have = numbers[:, label] > 0
        shares = numbers[have, label] / numbers[have, label].sum()
        found[label] = replies.combine(replies[means][have, label], shares)
    return found, known
