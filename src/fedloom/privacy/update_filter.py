"""What the two filters of a study share: they act on the mean change per step, bounded by gamma, before it is sent.

Filters of this kind are called privacy in the platforms that bring them, and **give no sound guarantee of differential
privacy**: SVT's epsilon is that of a threshold alone, and percentile adds no noise at all. A run with one says so.
They are here to repeat what was done with them; for a guarantee use the aggregator ``privatemean``.

They are made for differences of weights. ``whole_weights`` filters the weights themselves, as a platform does whose
clients send whole models: every weight is then crushed to at most ``gamma * steps``, and little is left of the model.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import ClassVar

import torch
from torch import Tensor

from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.declarations import Model
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact
from fedloom.core.task import Task

log = logging.getLogger("fedloom")


class UpdateFilter(ChannelStep):
    """A filter; subclasses have the settings and ``filter_changes``."""

    grants: ClassVar[Collection[Fact]] = (Fact.ADDABLE,)

    gamma: float
    whole_weights: bool

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse a place where the filter would not see what it is for, and say what it does not guarantee."""
        name, method = type(self).__name__.lower(), type(algorithm).__name__.lower()
        if any(type(step).decode is not ChannelStep.decode for step in before):
            raise FedloomError(
                f"{name} filters whole updates, and a step before it sends something else: put it first."
            )
        if self.whole_weights and before:
            raise FedloomError(f"{name} with whole_weights filters the weights that clients trained: put it first.")
        if self.whole_weights and not any(isinstance(kind, Model) for kind in algorithm.sends.values()):
            raise FedloomError(
                f"{method} sends differences, so {name} has no whole weights to filter: set whole_weights=false."
            )
        log.warning("%s gives no sound guarantee of differential privacy: it is for study only", name)

    def encode(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The filtered update."""
        steps = sender.steps.clamp(min=1).unsqueeze(1)
        origin = sender.received if self.whole_weights and sender.received is not None else torch.zeros(())
        changes = (origin + rows) / steps
        places = [self.filter_changes(change, sender.generator(place)) for place, change in enumerate(changes)]
        return torch.stack(places) * steps - origin, {}

    def filter_changes(self, changes: Tensor, generator: torch.Generator) -> Tensor:
        """What passes of one client's changes per step.

        Args:
            generator: The client's randomness.
        """
        raise NotImplementedError
