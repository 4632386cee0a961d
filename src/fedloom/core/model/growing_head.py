"""A head that grows: of a model with an output for every class, only those of classes seen so far take part.

The loss is that of a model with only these outputs: they are picked before it is computed, so the others get no
gradient, from the loss or from label smoothing. Predictions never name a class that was not seen. Weight decay and
averages act on all rows of the head; as long as a class is unseen its row is an initial weight that shrinks a little.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.objective import CrossEntropy, Objective
from fedloom.core.targets import IGNORED


@dataclass(frozen=True, eq=False)
class GrowingHead:
    """An objective of classes over the outputs of those seen so far.

    Args:
        of: The objective of a model with only these outputs.
        seen: The classes seen so far, sorted.
    """

    of: Objective
    seen: Tensor

    def __post_init__(self) -> None:
        if isinstance(self.of, CrossEntropy) and self.of.class_weights:
            raise FedloomError("loss: class_weights do not go with a stream, whose classes come one after another.")

    @property
    def score(self) -> str:
        """The name of the score."""
        return self.of.score

    def losses(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each sample over the outputs of seen classes; a sample of another class does not count."""
        return self.of.losses(outputs.index_select(-1, self.seen), self._places(outputs.shape[-1], targets))

    def scores(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The score of each sample over the outputs of seen classes."""
        return self.of.scores(outputs.index_select(-1, self.seen), self._places(outputs.shape[-1], targets))

    def mask(self, outputs: Tensor) -> Tensor:
        """The outputs with minus infinity for classes that were not seen."""
        unseen = torch.ones(outputs.shape[-1], dtype=torch.bool)
        unseen[self.seen] = False
        return outputs.masked_fill(unseen, -torch.inf)

    def _places(self, classes: int, targets: Tensor) -> Tensor:
        """The place of each target among the seen classes."""
        places = torch.full((classes,), IGNORED).index_copy(0, self.seen, torch.arange(len(self.seen)))
        return torch.where(targets == IGNORED, IGNORED, places[targets.clamp(min=0)])


def of_seen(outputs: Tensor, seen: Tensor | None) -> Tensor:
    """The outputs of classes seen so far; all outputs where there is no stream.

    Args:
        outputs: Outputs, or goals of them, whose last axis is the class.
        seen: The classes seen so far, sorted; None where there is no stream.
    """
    return outputs if seen is None else outputs.index_select(-1, seen)


def with_growing_head(objective: Objective, seen: Tensor | None) -> Objective:
    """An objective that fits the classes seen so far; the objective itself where there is no stream.

    Args:
        objective: The objective of all classes, or of those of another task of the stream.
        seen: The classes seen so far; None where there is no stream.
    """
    whole = objective.of if isinstance(objective, GrowingHead) else objective
    return whole if seen is None else GrowingHead(whole, seen)
