"""One client's network as a method's own loss sees it: outputs, features, and the same network with other weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from fedloom.training.dropout import rewind


class Net:
    """One client's network inside a method's own loss: call it for outputs, or ask for the features below the head."""

    def __init__(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        self.model, self.tensors = model, dict(tensors)
        rewind(model)

    def __call__(self, x: Tensor) -> Tensor:
        outputs: Tensor = torch.func.functional_call(self.model, self.tensors, (x,))
        return outputs

    def features(self, x: Tensor) -> Tensor:
        """What the head sees: ``model.features(x)``, or in a Sequential all before the last parametrised layer."""
        inside = {f"model.{name}": tensor for name, tensor in self.tensors.items()}
        outputs: Tensor = torch.func.functional_call(_Features(self.model), inside, (x,))
        return outputs

    def at(self, tensors: Mapping[str, Tensor]) -> Net:
        """The same network with other weights, for instance one of the ``given`` ones."""
        return Net(self.model, {**self.tensors, **tensors})


class _Features(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self.model, "features"):
            features: Tensor = self.model.features(x)  # type: ignore[operator]
            return features
        layers = [layer for layer in self.model._modules.values() if layer is not None]
        last = max(i for i, layer in enumerate(layers) if any(True for _ in layer.parameters()))
        for layer in layers[:last]:
            x = layer(x)
        return x


Loss = Callable[[Net, Tensor, Tensor, Mapping[str, Mapping[str, Tensor]]], tuple[Tensor, Tensor]]
"""A method's own loss: ``loss(net, x, y, given) -> (values, counts)`` per sample of one client."""
