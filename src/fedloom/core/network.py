"""One client's network as a method's own loss sees it: outputs, features, and the same network with other weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.task import Task


class Network(Protocol):
    """One client's network inside a method's own loss."""

    @property
    def mask(self) -> Tensor:
        """1 for each sample of the batch, and 0 for padding, which a loss of the whole batch must leave out."""

    @property
    def step(self) -> Tensor:
        """How many optimiser steps the client has made in this training, a whole number: what a method drew for each
        step, and gave with ``given``, is looked up by it."""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The client's weights, by name."""

    @property
    def model(self) -> nn.Module:
        """The model whose layers compute the outputs; its own weights are not the client's."""

    def __call__(self, x: Inputs) -> Tensor:
        """The outputs for prepared inputs."""

    def features(self, x: Inputs) -> Tensor:
        """What the head sees of prepared inputs (see ``features``)."""

    def stages(self, x: Inputs) -> tuple[Tensor, list[Tensor]]:
        """The outputs for prepared inputs, and the outputs of the model's stages (see ``core.stages``)."""

    def apply(self, name: str, x: Tensor) -> Tensor:
        """The outputs of one of the model's modules, such as a projection head that the method added.

        Args:
            name: The name of the module in the model.
            x: Its inputs.
        """

    def at(self, tensors: Mapping[str, Tensor]) -> Network:
        """The same network with other weights, for instance one of the ``given`` ones."""


Loss = Callable[[Network, Any, Tensor, Mapping[str, Any]], tuple[Tensor, Tensor]]
"""A method's own loss: ``loss(network, x, y, given) -> (values, counts)`` per sample of one client. ``x`` are
``Inputs``; a given row is a dict of tensors by name (for ``network.at``), and any other tensor is the client's own."""
Collect = Callable[[Network, Any, Tensor], Mapping[str, Tensor]]
"""``function(network, x, places)``: tensors with one entry per sample, by name, of one client's network for prepared
inputs; ``places`` are the samples' places in what is collected. For gradients it uses ``torch.func``."""


def collect_outputs(net: Network, x: Inputs, places: Tensor) -> Mapping[str, Tensor]:  # noqa: ARG001
    """The outputs of a network, to be collected.

    Args:
        x: Prepared inputs.
        places: The samples' places in what is collected.
    """
    return {"outputs": net(x)}


def features(model: nn.Module, x: Inputs) -> Tensor:
    """What a model's head sees: ``model.features(x)``, or in a Sequential all before the last parametrised layer."""
    if hasattr(model, "features"):
        found: Tensor = model.features(x)  # type: ignore[operator]
        return found
    if isinstance(x, dict):
        raise FedloomError(
            f"{type(model).__name__} takes several input columns, but this method needs what its head sees: give the "
            "model a method features(x)."
        )
    layers = [layer for layer in model._modules.values() if layer is not None]
    last = max(place for place, layer in enumerate(layers) if any(True for _ in layer.parameters()))
    seen: Tensor = x
    for layer in layers[:last]:
        seen = layer(seen)
    return seen


@torch.no_grad()
def feature_width(task: Task) -> int:
    """How many features the head of a task's model sees, found with one training sample."""
    trains = task.model.training
    task.model.eval()
    try:
        return features(task.model, task.inputs(task.sample)).flatten(1).shape[1]
    finally:
        task.model.train(trains)
