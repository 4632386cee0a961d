"""What is asked of local training: rows, who does how much, and what is special about the method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from fedloom.core.cycle import Cycle
from fedloom.core.local_work import LocalWork
from fedloom.core.seeds import key
from fedloom.training.batches import Assignment
from fedloom.training.network import Loss
from fedloom.training.stacked import Affine, Pull

Given = Mapping[str, Tensor]


@dataclass(frozen=True)
class Request:
    """What is to be trained: rows, who does how much, and what is special about the method.

    ``pull`` is an extra gradient ``pull(rows, received, **given)``, elementwise on matching pieces of rows;
    ``given`` are rows it (or ``loss``) needs; ``part`` names the only part that may move.
    """

    rows: Tensor
    work: LocalWork
    lr: float
    assignments: list[Assignment]
    seed: int
    round: int
    part: str | None = None
    pull: Pull | None = None
    given: Given = field(default_factory=dict)
    loss: Loss | None = None
    cycle: Cycle | None = None

    @property
    def lrs(self) -> tuple[float, ...]:
        """The learning rate of each step that is made with a batch."""
        return (self.lr,) if self.cycle is None else self.cycle.lrs

    @cached_property
    def slope(self) -> float:
        """The slope of an affine pull; 0 for any other, which is asked anew at every step."""
        return self.pull.slope(self.given) if isinstance(self.pull, Affine) and self.cycle is None else 0.0

    @cached_property
    def constants(self) -> Tensor | None:
        """What an affine pull adds whatever the rows are; None for any other, or where its anchor moves."""
        if not isinstance(self.pull, Affine) or self.cycle is not None:
            return None
        return self.pull.constants(self.rows, self.given)

    def pulled(self, gradients: list[Tensor], values: Sequence[Tensor], constants: list[Tensor]) -> list[Tensor]:
        """Gradients with an affine pull added."""
        pulled = list(torch._foreach_add(gradients, constants))
        if self.slope:
            torch._foreach_add_(pulled, list(values), alpha=self.slope)
        return pulled

    def noise_key(self, one: Assignment) -> int:
        """The key of a client's dropout."""
        return key(self.seed, "dropout", self.round, one.client) & 0xFFFFFFFF
