"""A server that divides: samples read from a linear first layer, from one update as clients send it anyway.

It only looks: the run is what it would be without. ``linear_layer.py`` has the formula.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.attacks.reconstruction.linear_layer import FirstLayer, first_linear_layer, read_linear_layer
from fedloom.attacks.reconstruction.server_attack import Found, ServerAttack
from fedloom.attacks.seen_updates import Seen, columns_on_the_way
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.layout import Slot
from fedloom.core.task import Task


@dataclass(frozen=True)
class LinearLeak(ServerAttack):
    """A server reads samples from the change of a linear first layer: weights divided by bias, neuron by neuron."""

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse also a model without a linear first layer."""
        super().check(algorithm, task)
        for own in task.by_architecture:
            first = needed_first_layer(self, own)
            check_sent(self, algorithm, own, first.weight, first.bias)

    def rebuild(self, seen: Seen) -> Found:
        """A candidate per neuron whose bias moved."""
        weight, bias = changes_of_layer(needed_first_layer(self, seen.task), seen)
        return Found(read_linear_layer(weight, bias))


def needed_first_layer(attack: ServerAttack, task: Task) -> FirstLayer:
    """The linear first layer of a model; a ``FedloomError`` says that it has none.

    Args:
        attack: Who needs it.
    """
    first = first_linear_layer(task)
    if first is None:
        raise FedloomError(
            f"{type(attack).__name__.lower()} reads a linear first layer with a bias, and the model of task "
            f"{task.name} begins with something else: use gradientinversion, or a model such as mlp."
        )
    return first


def check_sent(attack: ServerAttack, algorithm: Algorithm, task: Task, *slots: Slot) -> None:
    """Raise a ``FedloomError`` for a method whose clients do not send the weights that an attack reads.

    Args:
        attack: Who needs them.
        algorithm: The method of the run.
        slots: Where the weights lie.
    """
    sent = columns_on_the_way(algorithm.sends, task)
    kept = [slot.name for slot in slots if not bool(sent[slot.start : slot.stop].all())]
    if kept:
        name, method = type(attack).__name__.lower(), type(algorithm).__name__.lower()
        raise FedloomError(
            f"{name} needs the weights {kept[0]} of the model, and {method} does not send them: choose another method."
        )


def changes_of_layer(first: FirstLayer, seen: Seen) -> tuple[Tensor, Tensor]:
    """The change of the weight and of the bias of a layer.

    Args:
        seen: What the server sees.
    """
    views = seen.layout.views(seen.change)
    return views[first.weight.name], views[first.bias.name]
