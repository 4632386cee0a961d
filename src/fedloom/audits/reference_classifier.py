"""A classifier of a task's data that no attack has seen: what FID is measured with, and images are named by.

It is trained in one place on the training samples of all clients. Its features are what its head sees.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from fedloom.attacks.measures.fid import fid
from fedloom.audits.shadow_models import train_on
from fedloom.core.network import features
from fedloom.core.task import Task


@dataclass(frozen=True, eq=False)
class ReferenceClassifier:
    """A trained classifier.

    Args:
        row: Its weights.
    """

    task: Task
    row: Tensor

    @staticmethod
    def train(task: Task, settings: Mapping[str, Any]) -> ReferenceClassifier:
        """Train one on all training samples of a task.

        Args:
            settings: Settings of ``fl.run``, such as ``rounds`` and ``local``.
        """
        return ReferenceClassifier(task, train_on(task, task.federation.train.order, settings))

    @cached_property
    def model(self) -> nn.Module:
        """The network, in evaluation mode."""
        model = copy.deepcopy(self.task.model)
        self.task.layout.fill(model, self.row)
        return model.eval()

    @torch.no_grad()
    def features(self, images: Tensor) -> Tensor:
        """What its head sees of prepared images."""
        return features(self.model, images).flatten(1)

    @torch.no_grad()
    def accuracy(self, images: Tensor, labels: Tensor) -> float:
        """How often it is right.

        Args:
            images: Prepared images.
            labels: Their classes.
        """
        said = cast(Tensor, self.model(images)).argmax(1)
        return float((said == labels).double().mean())

    def distance(self, images: Tensor, others: Tensor) -> float:
        """The FID of two sets of prepared images: Fréchet distance of their features.

        Args:
            images: One set.
            others: The other set.
        """
        return fid(self.features(images), self.features(others))
