"""What the classes, or the labels, of a loss count: numbers in their order, numbers by name, or ``balanced``.

``balanced`` is scikit-learn's formula over the training samples of all clients: ``N / (C n_c)`` for each of the C
classes that have samples, so that each of these counts the same in sum and a sample counts 1 on average. A label that a
sample may have beside others has two classes, with and without; only the ratio of their weights is used, as torch's
``pos_weight``, so that samples without the label keep weight 1. What has no training sample counts 1: it may turn up in
a test set, or in what a deployed site has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import torch

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.settings import NonNegative
from fedloom.core.targets import IGNORED, target_kind

if TYPE_CHECKING:
    from fedloom.core.task import FederationView

ClassWeights = tuple[NonNegative, ...] | dict[str, NonNegative] | Literal["balanced"]
"""As a setting of a loss; empty where all count the same."""


def fit_class_weights(weights: ClassWeights, federation: FederationView) -> tuple[float, ...]:
    """A number for each class or label of some data; none where all count the same.

    Args:
        weights: The setting.
        federation: The data.
    """
    if weights == "balanced":
        return _balanced_weights(federation)
    names = [str(name) for name in federation.class_names] or [str(number) for number in range(federation.classes)]
    what = "label" if target_kind(federation.columns["y"]) == "labels" else "class"
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in names:
                raise unknown(f"{what} in the loss's class_weights:", name, names)
        return tuple(float(weights.get(name, 1.0)) for name in names)
    if weights and len(weights) != federation.classes:
        several = "labels" if what == "label" else "classes"
        raise FedloomError(
            f"loss: class_weights has {len(weights)} weights, but there are {federation.classes} {several}: give one "
            "for each, or some by name."
        )
    return tuple(weights)


def _balanced_weights(federation: FederationView) -> tuple[float, ...]:
    y = federation.columns["y"]
    targets = y[federation.train.order]
    if target_kind(y) == "labels":
        having = targets.double().sum(0)
        without = len(targets) - having
        return tuple(torch.where((having > 0) & (without > 0), without / having, 1.0).tolist())
    counts = torch.bincount(targets[targets != IGNORED], minlength=federation.classes).double()
    there = counts > 0
    return tuple(torch.where(there, counts.sum() / (there.sum() * counts), 1.0).tolist())
