"""Objectives: a loss to train by, and a score to report, both of single samples.

Values come with counts, so that padding and sequences of unequal length are exact. ``CrossEntropy`` is the objective of
a task that names none; ``losses/`` has the others. ``Standardised`` trains on targets with mean 0 and spread 1 and
reports in the units of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.class_weights import ClassWeights, fit_class_weights
from fedloom.core.settings import ShareBelowOne, check_settings
from fedloom.core.targets import IGNORED, TargetKind, label_mask

if TYPE_CHECKING:
    from fedloom.core.task import FederationView


class Objective(Protocol):
    """A loss and a score, both per sample: ``(values, counts)``; means are sums of values over sums of counts."""

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]: ...
    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]: ...
    @property
    def score(self) -> str: ...


@dataclass(frozen=True)
class Loss:
    """An objective that a config can name. Its settings are its fields."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    kinds: ClassVar[tuple[TargetKind, ...]] = ()
    """The kinds of targets that it is a loss of."""
    score: ClassVar[str] = "loss"
    """The name of its score in records."""

    def __post_init__(self) -> None:
        check_settings(self)

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each sample, and what it counts.

        Args:
            outputs: A model's outputs for a batch of samples.
            targets: The targets of these samples.
        """
        raise TypeError(f"{type(self).__name__} has no losses")

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each sample, and what it counts. By default, the loss.

        Args:
            outputs: A model's outputs for a batch of samples.
            targets: The targets of these samples.
        """
        return self.losses(outputs, targets)

    def fit(self, federation: FederationView) -> Loss:
        """This loss for some data; a ``FedloomError`` says why these data cannot have it.

        Args:
            federation: The data.
        """
        return self

    @property
    def fits_to_labels(self) -> bool:
        """Whether ``fit`` takes numbers from the training labels.

        A deployment then has the fitted loss in its run file: its server has no labels, and a site only its own.
        """
        return False


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """Cross-entropy of classes, per sample or per position of a sequence; its score is accuracy.

    Args:
        smoothing: The share of a target that is spread evenly over all classes.
        class_weights: What a sample of each class counts in the loss: a number per class, or numbers by the names of
            classes, 1 for those that are not named; ``"balanced"`` makes them of the training labels of all clients, so
            that all classes count the same in sum. The mean is over samples.
    """

    kinds = ("classes", "tokens")
    score = "accuracy"

    smoothing: ShareBelowOne = 0.0
    class_weights: ClassWeights = ()

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of each sample, summed over the positions that count."""
        plain = not self.smoothing and not self.class_weights
        if plain and targets.dim() == 1 and torch.compiler.is_compiling():  # without a gather it can be vectorised
            chosen = (targets.unsqueeze(1) == torch.arange(outputs.shape[1])).to(outputs.dtype)
            there = label_mask(targets)
            return (outputs.logsumexp(1) - (outputs * chosen).sum(1)) * there, there
        if targets.dim() == 1:
            return self.of_classes(outputs, targets), label_mask(targets)
        each = self.of_classes(outputs.flatten(0, 1), targets.flatten())
        return each.view(targets.shape).sum(1), (targets != IGNORED).sum(1).float()

    def of_classes(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each of n×classes outputs; 0 where the target does not count."""
        weights = torch.tensor(tuple(self.class_weights), dtype=outputs.dtype) if self.class_weights else None
        return F.cross_entropy(
            outputs, targets, weights, reduction="none", ignore_index=IGNORED, label_smoothing=self.smoothing
        )

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Correct predictions of each sample, and how many count."""
        hits = (outputs.argmax(-1) == targets).float()
        if targets.dim() == 1:
            return hits, label_mask(targets)
        return hits.sum(1), (targets != IGNORED).sum(1).float()

    def fit(self, federation: FederationView) -> CrossEntropy:
        """This loss with a weight for each class of some data."""
        if self.class_weights == ():
            return self
        return replace(self, class_weights=fit_class_weights(self.class_weights, federation))

    @property
    def fits_to_labels(self) -> bool:
        """Whether the weights are to be those of the training labels."""
        return self.class_weights == "balanced"


class SquaredError:
    """Half the squared distance as loss, the squared distance as score: the objective of the closed forms."""

    score = "squared_error"

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Half the squared distance of each sample."""
        return 0.5 * (outputs - targets.view_as(outputs)).square().flatten(1).sum(1), torch.ones(len(targets))

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The squared distance of each sample."""
        return (outputs - targets.view_as(outputs)).square().flatten(1).sum(1), torch.ones(len(targets))


@dataclass(frozen=True)
class Standardised:
    """An objective of numbers that are learnt with mean 0 and standard deviation 1.

    The loss is in units of the training targets' standard deviation, so that a learning rate means the same for grams
    and for tonnes; the score is in the units of the targets.

    Args:
        of: The objective of the standardised numbers.
        mean: The mean of the training targets; where a sample has several numbers, of each of these.
        std: Their standard deviation, in the same form.
    """

    of: Objective
    mean: float | tuple[float, ...]
    std: float | tuple[float, ...]

    @property
    def score(self) -> str:
        """The name of the score."""
        return self.of.score

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each sample against its standardised target."""
        return self.of.losses(outputs, self.standardise(targets))

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each sample in the units of the targets."""
        return self.of.scores(self.in_units(outputs), targets)

    def in_units(self, outputs: Tensor) -> Tensor:
        """A model's outputs in the units of the targets."""
        return outputs * _factor(self.std, outputs) + _factor(self.mean, outputs)

    def standardise(self, values: Tensor) -> Tensor:
        """Values in the units of the targets as a model learns them.

        Args:
            values: Their last axis is that of the numbers of a sample, where it has several.
        """
        return (values - _factor(self.mean, values)) / _factor(self.std, values)


def _factor(units: float | tuple[float, ...], values: Tensor) -> float | Tensor:
    """A mean or spread of one number as it is, and of several as a tensor."""
    return torch.tensor(units, dtype=values.dtype) if isinstance(units, tuple) else units
