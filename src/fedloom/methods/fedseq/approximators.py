"""Vectors that represent clients' data, computed from models that the clients trained alone: the input of the grouping.

Zaccone et al., ICPR 2022, https://arxiv.org/abs/2201.10899. ``conf``: the model's mean confidence in each class on
communal samples of that class, divided by the sum; ``softmax`` instead, as the thesis writes, flattens (one class of
ten becomes 0.23 against 0.085). ``clf``: the weights of the model's linear layers, without biases, reduced to the
principal components that keep 90 % of their variance. The server sees confidences or weights, never data.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.server_context import ServerContext
from fedloom.core.task import Task

Normalisation = Literal["sum", "softmax"]
ROWS_AT_ONCE, SAMPLES_AT_ONCE = 16, 512
KEPT_VARIANCE = 0.9


def confidences(context: ServerContext, rows: Tensor, normalise: Normalisation) -> Tensor:
    """How each row's model spreads its confidence over the classes of the communal set: B×classes, rows sum to one.

    ``p[k, c]`` is the mean, over the communal samples of class c, of the probability that model k gives to c. A class
    without communal samples has no column.
    """
    task, communal = context.task, context.task.federation.communal
    counts = task.targets(communal).bincount(minlength=task.federation.classes)
    sums = torch.zeros(len(rows), len(counts), dtype=torch.float64)
    for places in torch.split(torch.arange(len(rows)), ROWS_AT_ONCE):
        for seen in torch.split(communal, SAMPLES_AT_ONCE):
            probabilities = context.forward(rows[places], task.inputs(seen)).double().softmax(-1)
            labels = task.targets(seen)
            sums[places] = sums[places].index_add(1, labels, probabilities[:, torch.arange(len(seen)), labels])
    means = (sums / counts)[:, counts > 0]
    return means.softmax(1) if normalise == "softmax" else means / means.sum(1, keepdim=True)


def linear_columns(task: Task) -> Tensor:
    """The columns of a row in which the weights of linear layers lie, as indices."""
    weights = {f"{name}.weight".lstrip(".") for name, m in task.model.named_modules() if isinstance(m, nn.Linear)}
    spans = [torch.arange(slot.start, slot.stop) for slot in task.layout.slots if slot.name in weights]
    return torch.cat(spans) if spans else torch.zeros(0, dtype=torch.int64)


def principal_components(weights: Tensor) -> np.ndarray:
    """Vectors (one per client) reduced to the components that keep most of their variance."""
    if len(weights) < 2:
        return np.zeros((len(weights), 1))
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # the same bytes on any number of cores
        reduced = PCA(KEPT_VARIANCE, svd_solver="full").fit_transform(weights.numpy())
    return np.asarray(reduced)


def check_approximator(kind: str, task: Task) -> None:
    """Refuse a task for which an approximator has no input."""
    if kind == "clf" and not len(linear_columns(task)):
        raise FedloomError(
            f"approximator=clf compares linear layers, but {type(task.model).__name__} has none: use "
            "approximator=conf, or grouping=random."
        )
    if kind == "conf" and not task.classifies:
        raise FedloomError(
            "approximator=conf compares confidences in classes, but this task has none: use approximator=clf."
        )
    if kind == "conf" and not len(task.federation.communal):
        raise FedloomError(
            "approximator=conf needs communal samples, but this task has none: set task.communal_per_class, for "
            "instance to 10 (they leave the test set), or use approximator=clf."
        )
    if kind == "conf" and not task.federation.communal_labelled:
        raise FedloomError(
            "approximator=conf needs communal samples with labels, but these have none: give task.communal samples "
            "with targets (and no labelled = false), or use approximator=clf."
        )
