"""Herding: a few samples of each class whose mean is close to the mean of all, taken one after another.

``p_k = argmin_x | mu - (f(x) + sum_{j<k} f(p_j)) / k |`` over the samples x of the class that are left, mu being the
mean of the features f of all of them. The first k of a longer list are the list of k.

Rebuffi et al., iCaRL: Incremental Classifier and Representation Learning, CVPR 2017,
https://arxiv.org/abs/1611.07725. Its features have length 1, and so has every mean of them; here features have, and
means are not scaled again.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


def require_exemplar_per_class(exemplars: int, task: Task) -> None:
    """Refuse fewer exemplars than classes.

    Args:
        exemplars: How many there are in all.
    """
    classes = task.federation.classes
    if exemplars < classes:
        raise FedloomError(f"exemplars={exemplars}: give at least one for each of {classes} classes.")


def herd(features: Tensor, count: int) -> Tensor:
    """The places of some samples whose mean is close to that of all, best first.

    Args:
        features: The features of the samples of one class: n×features.
        count: How many are wanted.
    """
    mean, total = features.mean(0), torch.zeros_like(features[0])
    left, chosen = torch.ones(len(features), dtype=torch.bool), list[int]()
    for number in range(1, min(count, len(features)) + 1):
        apart = (mean - (features + total) / number).norm(dim=1)
        chosen.append(int(apart.masked_fill(~left, torch.inf).argmin()))
        left[chosen[-1]] = False
        total = total + features[chosen[-1]]
    return torch.tensor(chosen, dtype=torch.int64)


def exemplars(features: Tensor, labels: Tensor, count: int) -> Tensor:
    """The sorted places of exemplars of all classes: equally many of each, as far as it has them.

    Args:
        features: The features of all samples: n×features.
        labels: Their classes.
        count: How many exemplars there are in all; a remainder goes to the first classes.
    """
    classes, unit = sorted(set(labels.tolist())), F.normalize(features, dim=1)
    each, more = divmod(count, len(classes))
    chosen = []
    for number, label in enumerate(classes):
        own = (labels == label).nonzero().flatten()
        chosen.append(own[herd(unit[own], each + (number < more))])
    return torch.cat(chosen).sort().values
