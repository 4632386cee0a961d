"""Several optimiser steps on one batch, each with a loss of its own."""

from __future__ import annotations

from dataclasses import dataclass

from fedloom.core.network import Loss


@dataclass(frozen=True)
class LossStep:
    """One of the steps that are made with every batch, in order. Each has an optimiser state of its own.

    Args:
        loss: The method's own loss, as in ``cohort.train``; None is the task's.
        until: The last stage of the model that moves, counted from 1 (see ``core.stages``): nothing that comes after
            it changes, whatever the loss says; None moves all of the model.
    """

    loss: Loss | None = None
    until: int | None = None
