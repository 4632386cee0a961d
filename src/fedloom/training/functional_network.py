"""One client's network inside a method's own loss: the trainer's model with the client's weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs
from fedloom.core.model.model_output import chosen_output
from fedloom.core.model.stages import run_with_stages
from fedloom.core.network import features
from fedloom.training.keyed_dropout import rewind


class FunctionalNetwork:
    """A model with weights that are not its own, as ``core.network.Network`` describes it."""

    def __init__(
        self, model: nn.Module, tensors: Mapping[str, Tensor], mask: Tensor, step: Tensor | None = None
    ) -> None:
        self.model, self.tensors, self.mask = model, dict(tensors), mask
        self.step = torch.tensor(0) if step is None else step
        rewind(model)

    def __call__(self, x: Inputs) -> Tensor:
        return chosen_output(self.model, torch.func.functional_call(self.model, self.tensors, (x,)))

    def features(self, x: Inputs) -> Tensor:
        """What the head sees."""
        inside = {f"model.{name}": tensor for name, tensor in self.tensors.items()}
        outputs: Tensor = torch.func.functional_call(_Features(self.model), inside, (x,))
        return outputs

    def stages(self, x: Inputs) -> tuple[Tensor, list[Tensor]]:
        """The outputs, and the outputs of the model's stages."""
        inside = {f"model.{name}": tensor for name, tensor in self.tensors.items()}
        found: tuple[Tensor, list[Tensor]] = torch.func.functional_call(_Stages(self.model), inside, (x,))
        return found

    def apply(self, name: str, x: Tensor) -> Tensor:
        """The outputs of one of the model's modules."""
        module, start = self.model.get_submodule(name), f"{name}."
        own = {key.removeprefix(start): tensor for key, tensor in self.tensors.items() if key.startswith(start)}
        outputs: Tensor = torch.func.functional_call(module, own, (x,))
        return outputs

    def at(self, tensors: Mapping[str, Tensor]) -> FunctionalNetwork:
        """The same network with other weights, for instance one of the ``given`` ones."""
        return FunctionalNetwork(self.model, {**self.tensors, **tensors}, self.mask, self.step)


class _Features(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Inputs) -> Tensor:
        return features(self.model, x)


class _Stages(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Inputs) -> tuple[Tensor, list[Tensor]]:
        return run_with_stages(self.model, x)
