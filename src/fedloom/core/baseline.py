"""The baseline: what answering without a model gives, which every result is held against.

A task knows its baselines. Each is fitted on training samples, of all clients together or of one client alone, and
gives outputs like a model's, so that the task's own loss, score and metrics measure it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from fedloom.core.task import Task


class FittedBaseline(Protocol):
    """What a fitted baseline answers."""

    @property
    def words(self) -> str:
        """What it does, behind "better than": ``always answering 'benign'``."""
        ...

    def outputs(self, positions: Tensor) -> Tensor:
        """What a model that answers so would give for some samples.

        Args:
            positions: The positions of the samples.
        """
        ...


class Baseline(Protocol):
    """A way of answering without a model."""

    @property
    def name(self) -> str:
        """The name in tables: ``majority``."""
        ...

    @property
    def own_words(self) -> str:
        """What it does if it is fitted by every client on its own samples, behind "better than"."""
        ...

    def fit(self, task: Task, positions: Tensor, pooled: FittedBaseline | None = None) -> FittedBaseline:
        """What it answers after some training samples.

        Args:
            positions: The positions of the samples; there may be none if ``pooled`` is given.
            pooled: What it answers after the samples of all clients, if ``positions`` are those of one.
        """
        ...
