"""A user's module as a graph of operations, traced with ``torch.fx``.

The operations of its forward pass become functions of stacked tensors (``training/stacked_operations.py``). A module is
refused, with the reason, where that would not be the same: an operation that has no such function, a branch on values
or shapes, hooks, randomness of its own, attributes that change. Whatever slips through (a ``torch.no_grad()`` block, an
autograd function of its own) is found by a comparison of outputs and gradients with the module itself.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from fedloom.core.inputs import Inputs
from fedloom.core.model.adapted_model import AdaptedModel
from fedloom.core.model.model_output import chosen_output
from fedloom.training.keyed_dropout import KeyedDropout
from fedloom.training.layer_graph import LayerGraph, Operation, has_ties, hooked_layer
from fedloom.training.stacked import gradients_of, run_graph, run_vmap
from fedloom.training.stacked_operations import Untraceable, is_batch_size, is_shape, stacked_operation

CLOSE = 1e-3
"""How far the operations may be from the module, relative to its largest output or gradient: far above any rounding."""


def trace(model: nn.Module, sample: Callable[[], Inputs]) -> LayerGraph:
    """The operations of a module.

    Args:
        model: The module, with keyed dropout.
        sample: Makes prepared inputs of two clients, on which the operations are compared with the module.

    Raises:
        Untraceable: If it has none.
    """
    if isinstance(model, nn.Linear):
        raise Untraceable("it is a single layer: put it into an nn.Sequential")
    hooked = hooked_layer(model)
    if hooked is not None:
        raise Untraceable(f"its layer '{hooked}' has a hook")
    if has_ties(model):
        raise Untraceable("it uses a parameter under two names")
    trains = model.training
    try:
        graph = LayerGraph(_operations(model, True), _operations(model, False))
        _check_parameters(model, graph)
        _check_agreement(model, graph, sample())
    except Untraceable:
        raise
    except Exception as error:  # whatever a user's module raises, there is another way
        raise Untraceable(f"it cannot be traced ({(str(error).splitlines() or [type(error).__name__])[0]})") from None
    finally:
        model.train(trains)
    return graph


class _OneInput(nn.Module):
    """A module with one argument and one output: further arguments of its forward pass keep their defaults."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        returned = self.module(x)
        return returned if isinstance(returned, fx.Proxy) else chosen_output(self.module, returned)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, KeyedDropout) or super().is_leaf_module(m, module_qualified_name)


def _operations(model: nn.Module, train: bool) -> tuple[Operation, ...]:
    """The operations of a pass in training or evaluation mode."""
    whole = _OneInput(copy.deepcopy(model)).train(train)  # a forward pass may leave traces in its module
    with _no_other_state(whole):
        graph = _Tracer().trace(whole)
    places: dict[fx.Node, int] = {}
    operations: list[Operation] = []
    turns: Counter[str] = Counter()
    for node in _nodes_before_output(graph):
        if node.op == "placeholder":
            places[node] = 0
        elif node.op == "output":
            if not isinstance(node.args[0], fx.Node) or places.get(node.args[0]) != len(operations) or not operations:
                raise Untraceable("it does not return one tensor")
        elif not is_shape(node) and not is_batch_size(node):
            inputs, layer, name = stacked_operation(node, model)
            if any(one not in places for one in inputs):
                raise Untraceable("it computes with its inputs' shape")
            turn = turns[str(node.target)] if isinstance(layer, KeyedDropout) else 0
            turns[str(node.target)] += 1
            operations.append(Operation(tuple(places[one] for one in inputs), layer, name, turn))
            places[node] = len(operations)
    return tuple(operations)


def _nodes_before_output(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that the output depends on, in order."""
    needed: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or node in needed:
            needed.update((node, *node.all_input_nodes))
    return [node for node in graph.nodes if node in needed]


@contextmanager
def _no_other_state(model: nn.Module) -> Iterator[None]:
    """Refuse a forward pass that draws random numbers or changes attributes: its trace would repeat one pass."""

    def plain() -> dict[str, dict[str, object]]:
        kinds = (bool, int, float, str, type(None))
        modules = model.named_modules()
        return {name: {k: v for k, v in vars(m).items() if isinstance(v, kinds)} for name, m in modules}

    def numpy_state() -> tuple[Any, ...]:
        _, numbers, place, *_ = np.random.get_state(legacy=True)
        return np.asarray(numbers).tobytes(), place

    attributes, drawn, array, before = plain(), random.getstate(), np.random.get_state(), numpy_state()
    with torch.random.fork_rng(devices=[]):
        generator = torch.get_rng_state()
        yield
        same = torch.equal(torch.get_rng_state(), generator)
    if plain() != attributes:
        raise Untraceable("its forward pass changes its attributes")
    if not same or random.getstate() != drawn or numpy_state() != before:
        random.setstate(drawn)
        np.random.set_state(array)
        raise Untraceable("its forward pass draws random numbers")


def _check_parameters(model: nn.Module, graph: LayerGraph) -> None:
    """Refuse a parameter that trains outside of a linear layer, or in one that is used twice or never."""
    uses = Counter(operation.name for operation in graph.training if operation.name)
    added = model.added if isinstance(model, AdaptedModel) else ()  # the outputs do not depend on them
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and uses[name.rpartition(".")[0]] != 1 and name.partition(".")[0] not in added:
            raise Untraceable(f"its parameter '{name}' is not in a linear layer that is used once")


@torch.enable_grad()
def _check_agreement(model: nn.Module, graph: LayerGraph, x: Inputs) -> None:
    """Refuse operations that do not compute what the module does: its outputs and gradients, for two clients."""
    if not isinstance(x, Tensor):
        raise Untraceable("it takes several input columns")
    parameters = dict(model.named_parameters())
    start = {name: torch.stack([p.detach(), 0.9 * p.detach()]) for name, p in parameters.items()}
    moving = [start[name].requires_grad_() for name, p in parameters.items() if p.requires_grad]
    for keys in (torch.tensor([1, 2]), None):
        traced, real = run_graph(graph, start, x, keys), run_vmap(model, start, x, keys)
        if traced.shape != real.shape:
            raise Untraceable("its traced operations do not compute what the module computes")
        results: list[tuple[Tensor, ...]] = [(out.detach(),) for out in (traced, real)]
        if keys is not None:
            slopes = torch.arange(1.0, real.numel() + 1).view_as(real) / real.numel()
            results = [(out.detach(), *gradients_of((out * slopes).sum(), moving)) for out in (traced, real)]
        if any((a - b).abs().max() > CLOSE * b.abs().max() + 1e-6 for a, b in zip(*results, strict=True)):
            raise Untraceable("its traced operations do not compute what the module computes")
