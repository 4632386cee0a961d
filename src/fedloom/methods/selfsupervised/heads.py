"""Projection heads and predictors: small networks behind a model's features, which contrastive losses compare.

A head is ``linear, ReLU, linear``, as in SimCLR (Chen et al., ICML 2020, https://arxiv.org/abs/2002.05709). Its hidden
layer is as wide as its input. SimSiam (Chen and He, CVPR 2021, https://arxiv.org/abs/2011.10566) normalises inside its
heads with batch statistics; here that is layer normalisation, which needs no other sample.
"""

from __future__ import annotations

from torch import nn

from fedloom.core.model.adapted_model import add_modules
from fedloom.core.network import feature_width
from fedloom.core.settings import Count, check_value
from fedloom.core.task import Task
from fedloom.methods.requirements import require_features

PROJECTION, PREDICTOR = "projection", "predictor"
"""The names of the added modules, which are also the names of their parts."""


def with_projection(name: str, task: Task, width: int) -> Task:
    """A task whose model has a projection head of SimCLR's kind behind its features.

    Args:
        name: The name of the method, for errors.
        width: How many numbers a projection has.
    """
    features = _features(name, task, width)
    return add_modules(task, lambda: {PROJECTION: projection_head(features, width)})


def with_predictor(name: str, task: Task, width: int) -> Task:
    """A task whose model has a projection head, followed by a predictor with a bottleneck of a quarter of its width.

    Args:
        name: The name of the method, for errors.
        width: How many numbers a projection has, and its prediction.
    """
    features, bottleneck = _features(name, task, width), max(1, width // 4)
    return add_modules(
        task,
        lambda: {
            PROJECTION: _head(features, features, width, norm=True),
            PREDICTOR: _head(width, bottleneck, width, norm=True),
        },
    )


def projection_head(inputs: int, width: int) -> nn.Sequential:
    """SimCLR's projection head.

    Args:
        inputs: How many features the model has.
        width: How many numbers a projection has.
    """
    return _head(inputs, inputs, width)


def _features(name: str, task: Task, width: int) -> int:
    check_value("projection", width, Count)
    require_features(name, task)
    return feature_width(task)


def _head(inputs: int, hidden: int, outputs: int, norm: bool = False) -> nn.Sequential:
    inside = [nn.LayerNorm(hidden)] if norm else []
    return nn.Sequential(nn.Linear(inputs, hidden), *inside, nn.ReLU(), nn.Linear(hidden, outputs))
