"""A server that divides: samples read from a linear first layer, from one update as clients send it anyway.

It only looks: the run is what it would be without. ``linear_layer.py`` has the formula.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedloom.attacks.reconstruction.linear_layer import FirstLayer, first_linear_layer, read_linear_layer
from fedloom.attacks.reconstruction.server_attack import Found, ServerAttack
from fedloom.attacks.seen_updates import Seen
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


@dataclass(frozen=True)
class LinearLeak(ServerAttack):
    """A server reads samples from the change of a linear first layer: weights divided by bias, neuron by neuron.

    Args:
        clients: Not used: no client is hostile.
        fraction: Not used: no client is hostile.
        groups: Not used: no client is hostile.
        start: The first round in which the server may change what it sends.
        stop: The last such round; by default the run's.
        victims: The numbers of the clients that the server reads; by default the first ones that answer, up to
            ``most``.
        most: How many clients it reads at most.
        at_round: The round in which it attacks, counted from 1.
    """

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse also a model without a linear first layer."""
        super().check(algorithm, task)
        needed_first_layer(self, task)

    def rebuild(self, seen: Seen) -> Found:
        """A candidate per neuron whose bias moved."""
        first = needed_first_layer(self, seen.task)
        weight, bias = changes_of_layer(first, seen)
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


def changes_of_layer(first: FirstLayer, seen: Seen) -> tuple[Tensor, Tensor]:
    """The change of the weight and of the bias of a layer.

    Args:
        seen: What the server sees.
    """
    views = seen.context.layout.views(seen.change)
    return views[first.weight.name], views[first.bias.name]
