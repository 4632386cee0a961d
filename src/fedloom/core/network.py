"""One client's network as a method's own loss sees it: outputs, features, and the same network with other weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from fedloom.core.task import Task


class Network(Protocol):
    """One client's network inside a method's own loss."""

    @property
    def model(self) -> nn.Module:
        """The model whose layers compute the outputs; its own weights are not the client's."""

    def __call__(self, x: Tensor) -> Tensor:
        """The outputs for prepared inputs."""

    def features(self, x: Tensor) -> Tensor:
        """What the head sees of prepared inputs (see ``features``)."""

    def at(self, tensors: Mapping[str, Tensor]) -> Network:
        """The same network with other weights, for instance one of the ``given`` ones."""


Loss = Callable[[Network, Tensor, Tensor, Mapping[str, Mapping[str, Tensor]]], tuple[Tensor, Tensor]]
"""A method's own loss: ``loss(network, x, y, given) -> (values, counts)`` per sample of one client."""


def features(model: nn.Module, x: Tensor) -> Tensor:
    """What a model's head sees: ``model.features(x)``, or in a Sequential all before the last parametrised layer."""
    if hasattr(model, "features"):
        found: Tensor = model.features(x)  # type: ignore[operator]
        return found
    layers = [layer for layer in model._modules.values() if layer is not None]
    last = max(place for place, layer in enumerate(layers) if any(True for _ in layer.parameters()))
    for layer in layers[:last]:
        x = layer(x)
    return x


@torch.no_grad()
def feature_width(task: Task) -> int:
    """How many features the head of a task's model sees, found with one training sample."""
    trains = task.model.training
    task.model.eval()
    try:
        return features(task.model, task.inputs(task.federation.train[0][:1])).flatten(1).shape[1]
    finally:
        task.model.train(trains)
