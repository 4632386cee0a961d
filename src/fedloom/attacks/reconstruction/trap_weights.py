"""A malicious server that sets a trap in the first layer of a model, and reads samples from what it catches.

``trap.py`` has the formula. The round in which it does so trains a trapped model, whose accuracy falls: a site whose
operator looks at scores sees it, and one that checks only shapes and sizes does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from fedloom.attacks.reconstruction.linear_layer import FirstLayer
from fedloom.attacks.reconstruction.linear_leak import changes_of_layer, check_sent, needed_first_layer
from fedloom.attacks.reconstruction.sent_models import with_changed_models
from fedloom.attacks.reconstruction.server_attack import Found, ServerAttack
from fedloom.attacks.reconstruction.trap import read_trap, set_trap
from fedloom.attacks.seen_updates import Seen
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.message import Message, Wave
from fedloom.core.server_context import ServerContext
from fedloom.core.settings import Positive
from fedloom.core.task import Task


@dataclass(frozen=True)
class TrapWeights(ServerAttack):
    """A malicious server sends a model whose first layer sorts samples into bins, and reads single ones.

    Args:
        scale: How large the weights of the trap are.
        push: How large the weights behind it are.
    """

    scale: Positive = 0.3
    push: Positive = 0.03

    @property
    def grants(self) -> Collection[Fact]:  # type: ignore[override]
        """It sends the same model to all."""
        return (Fact.SAME_START,)

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse also a model without two linear layers, and a task without samples that the server may use."""
        super().check(algorithm, task)
        for own in task.by_architecture:
            first = self._layers(own)
            check_sent(self, algorithm, own, first.weight, first.bias, *([first.next] if first.next else []))
        if len(task.federation.global_test) < 2:
            raise FedloomError(
                "trapweights takes the bins of its trap from the global test samples, and there are none."
            )

    def poison_message(self, wave: Wave, context: ServerContext) -> Message:
        """The model with the trap, in the round of the attack."""
        if context.round != self.at_round:
            return wave.message

        def trap(task: Task, row: Tensor) -> Tensor:
            draw = context.generator("adversary/trap")
            return set_trap(task, row, self._layers(task), draw, self.scale, self.push)

        return with_changed_models(wave, context, trap)

    def rebuild(self, seen: Seen) -> Found:
        """A candidate per bin."""
        weight, bias = changes_of_layer(self._layers(seen.task), seen)
        return Found(read_trap(weight, bias))

    def _layers(self, task: Task) -> FirstLayer:
        first = needed_first_layer(self, task)
        if first.next is None:
            raise FedloomError(
                f"trapweights needs a linear layer after a ReLU after the first one, and the model of task {task.name} "
                "has none: use linearleak, or a model such as mlp."
            )
        return first
