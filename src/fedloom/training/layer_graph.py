"""A model as a list of operations that run for many clients at once.

An operation is a linear layer, a dropout, or a function of tensors whose first axis is the client and whose second is
the sample. An ``nn.Sequential`` of such layers is a graph by itself; any other module is traced (``trace.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from fedloom.training.keyed_dropout import KeyedDropout

ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity)


@dataclass(frozen=True)
class Operation:
    """One layer or function.

    Args:
        inputs: What it takes: 0 is the input of the model, and k the result of operation k.
        layer: A linear layer, a dropout, or a function of stacked tensors.
        name: The name of a linear layer in its model.
        turn: How often the model has used this dropout before, in the same pass.
    """

    inputs: tuple[int, ...]
    layer: Callable[..., Tensor]
    name: str = ""
    turn: int = 0


@dataclass(frozen=True)
class LayerGraph:
    """The operations of a model; the last one gives its outputs.

    Args:
        training: The operations while it trains.
        evaluation: The operations otherwise.
    """

    training: tuple[Operation, ...]
    evaluation: tuple[Operation, ...]

    @cached_property
    def is_chain(self) -> bool:
        """Whether every operation of a training pass takes what the operation before it gives, and nothing else."""
        return all(operation.inputs == (place,) for place, operation in enumerate(self.training))


def sequential_graph(model: nn.Module) -> LayerGraph | None:
    """The graph of an ``nn.Sequential`` of linear, elementwise, flatten and dropout layers; None for other models."""
    layers = None if has_ties(model) or hooked_layer(model) is not None else _layers(model)
    if layers is None:
        return None
    operations = tuple(
        Operation(
            (place,), flatten if isinstance(layer, nn.Flatten) else layer, name if isinstance(layer, nn.Linear) else ""
        )
        for place, (name, layer) in enumerate(layers)
    )
    return LayerGraph(operations, operations)


def _layers(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    if type(model) is not nn.Sequential:
        return None
    layers: list[tuple[str, nn.Module]] = []
    for name, layer in model._modules.items():  # with repetitions, which named_children() would leave out
        if type(layer) is nn.Sequential:
            inner = _layers(layer)
            if inner is None:
                return None
            layers += [(f"{name}.{deeper}", module) for deeper, module in inner]
        elif layer is not None and (type(layer) in (nn.Linear, KeyedDropout, *ELEMENTWISE) or flattens(layer)):
            layers.append((name, layer))
        else:
            return None
    return layers


def flatten(x: Tensor) -> Tensor:
    """``nn.Flatten()`` for many clients: everything after the sample becomes one axis."""
    return x.flatten(2)


def flattens(layer: nn.Module) -> bool:
    """Whether a layer is a plain ``nn.Flatten()``."""
    return type(layer) is nn.Flatten and layer.start_dim == 1 and layer.end_dim == -1


def has_ties(model: nn.Module) -> bool:
    """Whether a parameter is used under two names."""
    return len(list(model.named_parameters(remove_duplicate=False))) > len(list(model.named_parameters()))


def hooked_layer(model: nn.Module) -> str | None:
    """The name of a layer with a hook, which the graph would not call; None if there is none."""
    name: str
    for name, layer in model.named_modules():
        if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks:
            return name
    return None
