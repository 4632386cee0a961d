"""A server that seeks images whose update is the one that a client sent; it only looks.

``inverting.py`` has the usual objective (cosine and total variation), ``dlg.py`` the first one, and ``labels.py`` finds
the labels of the images first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.dlg import Guess, deep_leakage
from fedloom.attacks.reconstruction.gradients import LocalSteps, inputs_of
from fedloom.attacks.reconstruction.inverting import invert_gradient
from fedloom.attacks.reconstruction.labels import (
    label_counts,
    label_of_one,
    last_bias,
    mean_prediction,
    needed_classes,
    trained_slots,
)
from fedloom.attacks.reconstruction.linear_leak import check_sent
from fedloom.attacks.reconstruction.rebuilt import value_range
from fedloom.attacks.reconstruction.server_attack import Found, ServerAttack
from fedloom.attacks.seen_updates import Seen
from fedloom.core.algorithm import Algorithm
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.settings import Count, NonNegative
from fedloom.core.task import Task


@dataclass(frozen=True)
class GradientInversion(ServerAttack):
    """A server seeks the images whose update is the one that a client sent.

    Args:
        by: ``cosine`` follows the direction of the update through the client's local steps and prefers smooth images;
            ``dlg`` takes the update for one gradient, and needs a model that is smooth itself (sigmoid).
        images: How many images of a client it seeks at most; one that has more samples is sought that many.
        iterations: Steps of the search from each start.
        starts: From how many starting points it is tried.
        smoothness: How much smooth images are preferred, with ``cosine``.
    """

    needs: ClassVar[Facts] = {Fact.IMAGES: "rebuilds images: use a task on images, or linearleak"}

    most: Count = 1
    by: Literal["cosine", "dlg"] = "cosine"
    images: Count = 8
    iterations: Count = 300
    starts: Count = 1
    smoothness: NonNegative = 1e-4

    def check(self, algorithm: Algorithm, task: Task) -> None:
        """Refuse also a model whose last layer tells no labels."""
        super().check(algorithm, task)
        needed_classes(self, task)
        for own in task.by_architecture:
            if last_bias(own) is None:
                raise FedloomError(
                    "gradientinversion finds labels by the bias of the model's last layer, which has none: use a model "
                    "whose last layer has a bias."
                )
            check_sent(self, algorithm, own, *trained_slots(own))

    def rebuild(self, seen: Seen) -> Found:
        """The images that would have made the same change."""
        task, context = seen.task, seen.context
        steps = LocalSteps.of(context.work, seen.samples, context.round, context.rounds)
        if seen.steps == 1 != steps.count:  # the method makes one step of all samples, whatever the local work is
            steps = replace(steps, count=1, batch_size=0)
        sent = -seen.trained / (steps.lr * max(steps.count, 1))  # the gradient, where there was one step
        draw = context.generator(f"adversary/{'-'.join(map(str, seen.clients))}")
        counts = self._label_counts(seen, sent, draw)
        labels = torch.repeat_interleave(torch.arange(len(counts)), counts)
        if len(labels) > self.images:
            labels = labels[torch.randperm(len(labels), generator=draw)[: self.images]]
        return Found(self._search(task, seen, sent, labels, steps, draw).inputs, counts)

    def _label_counts(self, seen: Seen, sent: Tensor, draw: torch.Generator) -> Tensor:
        """How many samples of each class the client has."""
        task, last = seen.task, trained_slots(seen.task)[-1]
        bias = sent[last.start : last.stop]  # what trains stands first in a row
        if seen.samples == 1:
            return torch.nn.functional.one_hot(torch.tensor(label_of_one(bias)), len(bias))
        shape = inputs_of(task, task.sample).shape[1:]
        noise = torch.randn(64, *shape, generator=draw)
        return label_counts(bias, mean_prediction(task, seen.row, noise), seen.samples)

    def _search(
        self, task: Task, seen: Seen, sent: Tensor, labels: Tensor, steps: LocalSteps, draw: torch.Generator
    ) -> Guess:
        row = seen.row
        if self.by == "dlg":
            common = {"iterations": self.iterations, "starts": self.starts}
            return deep_leakage(task, row, sent, labels=labels, generator=draw, **common)
        low, high = value_range(task)
        return invert_gradient(
            task,
            row,
            seen.trained.float(),
            labels,
            steps,
            low=low,
            high=high,
            smoothness=self.smoothness,
            iterations=self.iterations,
            starts=self.starts,
            generator=draw,
        )
