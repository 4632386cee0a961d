"""What methods need of local training: a request goes in, rows come out. ``training.LocalTrainer`` implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from torch import Tensor

from fedloom.core.cycle import Cycle
from fedloom.core.inputs import Augment, Inputs
from fedloom.core.layout import Layout
from fedloom.core.local_work import LocalWork, StepRates
from fedloom.core.metric import Scores
from fedloom.core.network import Collect, Loss
from fedloom.core.pull import Affine, Pull
from fedloom.core.task import Task

Given = Mapping[str, Tensor]
"""What a pull or a loss needs, by name: tensors of any shape with one entry per client, such as rows and numbers."""


GivenToLoss = dict[str, Tensor | dict[str, Tensor]]
"""The same as a loss gets it: a row is a dict of tensors by name."""


class StepNoise(Protocol):
    """What a trainer needs to know to train by DP-SGD; ``privacy.SamplePrivacy`` has it, and what it costs."""

    @property
    def multiplier(self) -> float: ...
    @property
    def clip(self) -> float: ...
    @property
    def seeded(self) -> bool: ...


@dataclass(frozen=True)
class TrainingRequest:
    """What is to be trained: rows, on which samples, how much, and what is special about the method.

    ``pull`` is an extra gradient ``pull(rows, received, **given)``, elementwise on matching pieces of rows;
    ``given`` is what it (or ``loss``) needs; ``part`` names the only part that is trained.
    """

    rows: Tensor
    """A row per client."""
    clients: list[int]
    positions: list[Tensor]
    """The positions of each client's training samples in the task's columns."""
    work: LocalWork
    lr: float
    seed: int
    round: int
    part: str | None = None
    pull: Pull | None = None
    given: Given = field(default_factory=dict)
    loss: Loss | None = None
    cycle: Cycle | None = None
    privacy: StepNoise | None = None
    """Train by DP-SGD with these settings."""
    on: Tensor | None = None
    """The samples that all clients train on instead of their own; a loss of the method's own gets their places here."""
    augment: Augment | None = None
    """Replaces the task's augmentation."""
    steps: tuple[LossStep, ...] = ()
    """What is done with each batch, if that is not one step on ``loss``."""
    rates: StepRates | None = None
    """The learning rate of each step, where it changes within the round; ``lr`` is then that of the first."""

    @property
    def loss_steps(self) -> tuple[LossStep, ...]:
        """The steps that are made with each batch."""
        return self.steps or (LossStep(self.loss),)

    @property
    def has_own_loss(self) -> bool:
        """Whether any step has a loss of the method's own."""
        return any(step.loss is not None for step in self.loss_steps)

    @property
    def lrs(self) -> tuple[float, ...]:
        """The learning rate of each step of the cycle that is made with a batch; of the only step without one."""
        return (self.lr,) if self.cycle is None else self.cycle.lrs

    @cached_property
    def slope(self) -> float:
        """The slope of an affine pull; 0 for any other, which is computed anew at every step."""
        return self.pull.slope(self.given_to_pull) if isinstance(self.pull, Affine) and self.cycle is None else 0.0

    @cached_property
    def constants(self) -> Tensor | None:
        """The constant part of an affine pull; None for any other, or where its anchor moves."""
        if not isinstance(self.pull, Affine) or self.cycle is not None:
            return None
        return self.pull.constants(self.rows, self.given_to_pull)

    @cached_property
    def given_to_pull(self) -> Given:
        """What a pull gets: rows, and numbers (B×1). Other shapes have no pieces that match those of a row."""
        columns = {name: value.unsqueeze(1) if value.dim() == 1 else value for name, value in self.given.items()}
        fitting = (1, self.rows.shape[1])
        return {name: value for name, value in columns.items() if value.dim() == 2 and value.shape[1] in fitting}

    def given_to_loss(self, layout: Layout) -> GivenToLoss:
        """What a loss gets, of all clients: a row as tensors by name, and anything else as it is."""
        width = self.rows.shape[1]
        return {
            name: layout.stacks(value) if value.dim() == 2 and value.shape[1] == width else value
            for name, value in self.given.items()
        }


def given_of(given: GivenToLoss, clients: int | slice | Tensor) -> GivenToLoss:
    """What a loss gets of some of the clients, or of one of them.

    Args:
        given: The same of all clients.
        clients: Their places, or the place of one.
    """
    return {
        name: value[clients] if isinstance(value, Tensor) else {part: t[clients] for part, t in value.items()}
        for name, value in given.items()
    }


@dataclass(frozen=True)
class TrainingResult:
    """The rows after local training, and the gradient steps of each client."""

    rows: Tensor
    anchors: Tensor
    """The anchor rows of a cycle; the rows themselves where there is no cycle."""
    steps: Tensor
    rates: Tensor
    """The sum of the learning rates of each client's steps."""


class Trainer(Protocol):
    """Trains and evaluates rows of one task's model."""

    @property
    def task(self) -> Task:
        """The task."""

    @property
    def layout(self) -> Layout:
        """The layout of the rows."""

    def at(self, round_number: int) -> Trainer:
        """The trainer of a round: in a stream, of the classes seen so far."""

    def train(self, request: TrainingRequest) -> TrainingResult:
        """Train each row on its client's samples."""

    def gradients(self, rows: Tensor, lists: Sequence[Tensor], work: LocalWork) -> Tensor:
        """The gradient of each row's mean loss on its list of samples, with the work's weight decay and clipping."""

    def outputs(self, rows: Tensor, inputs: Inputs) -> Tensor:
        """The outputs of every row on the same prepared inputs: B×n×..."""

    def features(self, row: Tensor, positions: Tensor) -> Tensor:
        """What the head sees of some samples under one row: n×features."""

    def collect(self, rows: Tensor, positions: Tensor, function: Collect) -> dict[str, Tensor]:
        """What a function finds of every row's network on the same samples, by name: B×n×..."""

    def collect_each(self, rows: Tensor, lists: Sequence[Tensor], function: Collect) -> list[dict[str, Tensor]]:
        """What a function finds of each row's network on its own list of samples, by name: n×..."""

    def scores(self, rows: Tensor, lists: Sequence[Tensor]) -> Scores:
        """Loss and score of each row on its own list of samples."""


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
