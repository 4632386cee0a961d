"""What the server half of a method may use besides its state: the task, the round, randomness, training, and passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedloom.core.inputs import Augment, Inputs
from fedloom.core.layout import Layout
from fedloom.core.local_work import LocalWork
from fedloom.core.metric import Scores
from fedloom.core.network import Collect, Loss
from fedloom.core.seeds import generator, key, numpy_generator
from fedloom.core.task import Task
from fedloom.core.trainer import Given, LossStep, Trainer, TrainingRequest
from fedloom.core.training_checks import check_positions, check_rows, check_training

if TYPE_CHECKING:
    from fedloom.core.declarations import Declared


@dataclass(frozen=True)
class ServerContext:
    """What the server has in one round.

    Args:
        trainer: Evaluates rows on the server.
        round: The round, counted from 1; 0 is the prelude.
        rounds: How many rounds the run has.
        clients: The clients that may take part, without held-out new clients.
        weigh: The run's weighting, ``weigh(samples, steps)``: weights that sum to one, for what a method combines
            itself.
        trainings: How often the server trained in this round, by purpose.
        trainers: Trains and evaluates rows of each architecture, where clients' models differ; ``trainer`` is then for
            the server's model.
        counted: How many training samples every client counts with; None for as many as it has.
        receives: What the method's messages are, by name.
        sends: What its replies are, by name.
    """

    trainer: Trainer
    work: LocalWork
    seed: int
    round: int
    rounds: int
    clients: Sequence[int]
    weigh: Callable[[Tensor, Tensor], Tensor]
    trainings: dict[str, int] = field(default_factory=dict)
    trainers: Sequence[Trainer] = ()
    counted: Tensor | None = None
    receives: Declared = field(default_factory=dict)
    sends: Declared = field(default_factory=dict)

    def of_architecture(self, number: int) -> ServerContext:
        """The same for rows of one of the clients' architectures.

        Args:
            number: The number of the architecture.
        """
        return replace(self, trainer=self.trainers[number]) if self.trainers else self

    @property
    def task(self) -> Task:
        """The task as it stands in this round."""
        return self.trainer.task.at(self.round)

    @property
    def layout(self) -> Layout:
        """Where the tensors and parts of a row lie."""
        return self.trainer.layout

    @property
    def samples(self) -> Tensor:
        """The number of training samples that every client of the federation counts with."""
        return self.task.federation.train.sizes if self.counted is None else self.counted

    def generator(self, purpose: str) -> torch.Generator:
        """The server's own randomness for one purpose in this round.

        Args:
            purpose: What the randomness is for: each purpose has its own.
        """
        return generator(self.seed, purpose, self.round)

    def numpy_generator(self, purpose: str) -> np.random.Generator:
        """The same for numpy.

        Args:
            purpose: What the randomness is for.
        """
        return numpy_generator(self.seed, purpose, self.round)

    def forward(self, rows: Tensor, inputs: Inputs) -> Tensor:
        """The outputs of every row on the same prepared inputs: B×n×...

        Args:
            inputs: Prepared inputs.
        """
        return self.trainer.outputs(rows, inputs)

    def train(
        self,
        row: Tensor,
        positions: Tensor,
        *,
        work: LocalWork | None = None,
        loss: Loss | None = None,
        given: Given | None = None,
        part: str | None = None,
        augment: Augment | None = None,
        steps: Sequence[LossStep] = (),
        purpose: str = "server",
    ) -> Tensor:
        """A row after the server has trained it on samples that it holds, by the executions that clients have.

        A server is not a straggler: it does all of its work, whatever ``local.partial`` is.

        Args:
            positions: Sorted positions of the samples: the communal set, or the server's own. The task's augmentation
                is not applied to them.
            work: How much is trained and with which optimiser; the run's local work by default.
            loss: A loss that replaces the task's, as in ``cohort.train``; its ``y`` are the samples' places in
                ``positions``.
            given: What the loss needs, by name: rows, and other tensors as the loss gets them.
            part: The only part of the model that is trained; all parts by default.
            augment: Changes prepared inputs at random, as in ``cohort.train``.
            steps: What is done with each batch, as in ``cohort.train``.
            purpose: What the training is for: each purpose has its own batches, and so has each training of a purpose.
        """
        own = {name: value.unsqueeze(0) for name, value in (given or {}).items()}
        rows, work = row.unsqueeze(0), replace(work or self.work, partial=0.0)
        check_rows(rows, own, 1, self.layout.width)
        check_training(self.task, positions, augment, loss, steps)
        earlier = self.trainings.get(purpose, 0)
        self.trainings[purpose] = earlier + 1
        request = TrainingRequest(
            rows=rows,
            clients=[0],
            positions=[positions],
            work=work,
            lr=work.lr_at(self.round, self.rounds),
            seed=key(self.seed, purpose, self.round, earlier),
            round=self.round,
            part=part,
            given=own,
            loss=loss,
            on=positions,
            augment=augment,
            steps=tuple(steps),
            rates=work.rates_in(self.round, self.rounds),
        )
        return self.trainer.train(request).rows[0]

    def collect(self, row: Tensor, positions: Tensor, function: Collect) -> dict[str, Tensor]:
        """What a function finds of one row's network on some samples, by name: n×...

        Args:
            positions: Sorted positions of the samples.
            function: ``function(network, x, places)``, as in ``cohort.collect``.
        """
        check_positions(positions)
        return {name: found[0] for name, found in self.trainer.collect(row.unsqueeze(0), positions, function).items()}

    def evaluate(self, rows: Tensor, positions: Tensor) -> Scores:
        """Loss and score of every row on the same samples.

        Args:
            positions: The positions of the samples in the federation's columns.
        """
        return self.trainer.scores(rows, [positions] * len(rows))
