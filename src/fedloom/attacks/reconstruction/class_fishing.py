"""A malicious server that fishes for the samples of one class: all others leave the body's gradient.

The head's weights are zero but for the row of one class c, and the biases of all other classes are ``depth``. Then the
model predicts c of nothing, ``p_c`` is about ``exp(-depth)``, and what reaches the layers before the head is
``(p_c - [y = c]) W_c``: nothing but samples of class c. A client's update is that of these samples alone, and where
there is one of them, ``linear_layer.py`` reads it exactly, however many others the client has. Wen, Geiping, Fowl,
Goldblum and Goldstein, Fishing for User Data in Large-Batch Federated Learning via Gradient Magnification, ICML 2022,
https://arxiv.org/abs/2202.00580.

This is their class fishing. They go on to fish by one feature where a class has several samples; we do not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.labels import last_bias, needed_classes, trained_slots
from fedloom.attacks.reconstruction.linear_layer import read_linear_layer
from fedloom.attacks.reconstruction.linear_leak import changes_of_layer, check_sent, needed_first_layer
from fedloom.attacks.reconstruction.sent_models import with_changed_models
from fedloom.attacks.reconstruction.server_attack import Found, ServerAttack
from fedloom.attacks.seen_updates import Seen
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.layout import Slot
from fedloom.core.message import Message, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Positive, WholeNumber
from fedloom.core.task import Task


@dataclass(frozen=True)
class ClassFishing(ServerAttack):
    """A malicious server sends a model whose update shows the samples of one class only, and reads them.

    Args:
        target: The number of the class that it is after.
        depth: How much larger the biases of all other classes are.
    """

    target: WholeNumber = 0
    depth: Positive = 20.0

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]
        """It sends the same model to all."""
        return (Fact.SAME_START,)

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse also a class that there is not, and a model that it cannot read."""
        super().check(algorithm, task)
        needed_classes(self, task)
        for own in task.by_architecture:
            first = needed_first_layer(self, own)
            if last_bias(own) is None:
                raise FedloomError("classfishing sets the bias of the model's last layer, which has none.")
            check_sent(self, algorithm, own, first.weight, first.bias, *_head(own))
        if self.target >= task.federation.classes:
            raise FedloomError(f"classfishing: target={self.target}: there are {task.federation.classes} classes.")

    def poison_message(self, wave: Wave, context: ServerContext) -> Message:
        """The model that fishes, in the round of the attack."""
        if context.round != self.at_round:
            return wave.message
        return with_changed_models(wave, context, lambda task, row: fish(task, row, self.target, self.depth))

    def rebuild(self, seen: Seen) -> Found:
        """Of a linear model the mean of the class, else a candidate per neuron that its samples moved."""
        first = needed_first_layer(self, seen.task)
        weight, bias = changes_of_layer(first, seen)
        if first.bias == last_bias(seen.task):  # the first layer is the last one: its other rows are other classes
            weight, bias = weight[[self.target]], bias[[self.target]]
        return Found(read_linear_layer(weight, bias), sought=self.target)


def fish(task: Task, row: Tensor, target: int, depth: float) -> Tensor:
    """The model whose update shows the samples of one class only.

    Args:
        task: The task, whose model it is.
        row: The model.
        target: The class.
        depth: How much larger the biases of all other classes are.
    """
    weight, bias = _head(task)
    changed = row.clone()
    views = task.layout.views(changed)
    others = torch.arange(bias.shape[0]) != target
    views[weight.name][others] = 0.0
    views[bias.name].copy_(depth * others)
    return changed


def _head(task: Task) -> tuple[Slot, Slot]:
    """Where weight and bias of the last layer lie."""
    weight, bias = trained_slots(task)[-2:]
    return weight, bias
