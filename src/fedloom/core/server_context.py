"""What the server half of a method may use besides its state: the task, the round, randomness, and forward passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedloom.core.inputs import Inputs
from fedloom.core.layout import Layout
from fedloom.core.local_work import LocalWork
from fedloom.core.renamed import renamed
from fedloom.core.scores import Scores
from fedloom.core.seeds import generator, numpy_generator
from fedloom.core.task import Task
from fedloom.core.trainer import Trainer


@renamed(loom="trainer")
@dataclass(frozen=True)
class ServerContext:
    """What the server has in one round.

    Args:
        trainer: Evaluates rows on the server.
        work: The local work of the run.
        seed: The seed of the run.
        round: The round, counted from 1; 0 is the prelude.
        rounds: How many rounds the run has.
        clients: The clients that may take part, without held-out new clients.
        weigh: The run's weighting, ``weigh(samples, steps)``: weights that sum to one, for what a method combines
            itself.
    """

    trainer: Trainer
    work: LocalWork
    seed: int
    round: int
    rounds: int
    clients: Sequence[int]
    weigh: Callable[[Tensor, Tensor], Tensor]

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
        """The number of training samples of every client of the federation."""
        return self.task.federation.train.sizes

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
            rows: Some rows.
            inputs: Prepared inputs.
        """
        return self.trainer.outputs(rows, inputs)

    def evaluate(self, rows: Tensor, positions: Tensor) -> Scores:
        """Loss and score of every row on the same samples.

        Args:
            rows: Some rows.
            positions: The positions of the samples in the federation's columns.
        """
        return self.trainer.scores(rows, [positions] * len(rows))
