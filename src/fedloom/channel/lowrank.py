"""Low-rank structured updates: the update of each weight matrix is ``A B``, with a random A that is a seed.

A has r orthonormal columns, as many as the rank, and is new for every client and round; B is sent. In the paper
clients train B; here the trained update H is projected (least squares, ``B = A^T H``), since a channel sees only the
result. What is outside the columns of A, on average ``1 - r/m`` of the squared norm of a matrix with m rows, is lost
to this round: ``||H - A B||^2 = ||H||^2 - ||B||^2``. Error feedback sends it later, and is on for that reason; the
paper, whose clients lose nothing that they trained, has none.

A convolution is a matrix with a row per output channel. Vectors, and matrices with at most r rows, are sent as they
are.

Konečný et al., Federated Learning: Strategies for Improving Communication Efficiency, 2016,
https://arxiv.org/abs/1610.05492, section 2.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedloom.channel.arrival_check import check_rows
from fedloom.channel.error_feedback import ErrorFeedback
from fedloom.channel.shared_randomness import draw_seeds, random_matrix, read_seeds
from fedloom.core.algorithm import Algorithm
from fedloom.core.channel_step import ChannelStep, Extras, Sender
from fedloom.core.errors import FedloomError
from fedloom.core.facts import Fact, Facts
from fedloom.core.layout import Layout
from fedloom.core.settings import Count
from fedloom.core.task import Task


@dataclass(frozen=True)
class LowRank(ErrorFeedback):
    """Send the update of each weight matrix as its part in a random subspace, and the subspace's seed.

    Args:
        rank: The dimension of the subspace.
        error_feedback: Whether clients add what they did not send to their next update.
    """

    needs: ClassVar[Facts] = {Fact.MODEL_PARTS: "acts on the weight matrices of a model: use randomk or sketch"}
    breaks: ClassVar[Facts] = {
        Fact.MIXED_MODELS: "acts on the weight matrices of one model: use randomk or sketch, or leave it out"
    }

    rank: Count = 4
    error_feedback: bool = True

    layout: ClassVar[Layout | None] = None

    def for_task(self, task: Task) -> Self:
        """The step with the matrices of a task's model."""
        step = copy.copy(self)
        object.__setattr__(step, "layout", task.layout)
        return step

    def check(self, algorithm: Algorithm, task: Task, before: tuple[ChannelStep, ...]) -> None:
        """Refuse a place behind a step that leaves no matrices."""
        width = task.layout.width
        if any(step.for_task(task).width(width) != width for step in before):
            raise FedloomError(
                "lowrank acts on the model's weight matrices, and a step before it sends something else: put lowrank "
                "first."
            )

    def width(self, width: int) -> int:
        """How many numbers are sent."""
        return sum(min(self.rank, height) * length for height, length in self._shapes(width))

    def compress(self, rows: Tensor, sender: Sender) -> tuple[Tensor, Extras]:
        """The part of each matrix in its subspace, matrix by matrix."""
        seeds = draw_seeds(sender, len(rows))
        return self._map_matrices(rows, seeds, rows.shape[1], lambda basis, matrix: basis.T @ matrix), {"seed": seeds}

    def decode(self, rows: Tensor, extras: Extras, width: int) -> Tensor:
        """The matrices of low rank."""
        check_rows(rows, torch.float32, self.width(width))
        return self._map_matrices(rows, read_seeds(extras, len(rows)), width, torch.matmul)

    def _map_matrices(
        self, rows: Tensor, seeds: Tensor, width: int, apply: Callable[[Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Rows in which ``apply`` has changed every matrix that has a basis; one client after another, so that the
        others in its cohort do not change a bit of it."""
        shapes, found = self._shapes(width), []
        for row, seed in zip(rows, seeds.flatten().tolist(), strict=True):
            pieces, start = [], 0
            for number, (height, length) in enumerate(shapes):
                basis = self._basis(seed, number, height)
                stop = start + length * (height if basis is None or len(row) == width else self.rank)
                piece = row[start:stop].view(-1, length)
                pieces.append((piece if basis is None else apply(basis, piece)).flatten())
                start = stop
            found.append(torch.cat(pieces))
        return torch.stack(found)

    def _basis(self, seed: int, number: int, height: int) -> Tensor | None:
        """Orthonormal columns that span a random subspace; None for a matrix that is sent as it is."""
        if height <= self.rank:
            return None
        basis: Tensor = torch.linalg.qr(random_matrix(seed, number, height, self.rank)).Q
        return basis.float()

    def _shapes(self, width: int) -> list[tuple[int, int]]:
        """Height and length of each matrix in a row: the whole model's, or those of a part that is as wide."""
        if self.layout is None:
            raise FedloomError("lowrank needs the layout of a model: use for_task(task) of it.")
        choices = [self.layout.slots, *([s for s in self.layout.slots if s.part == p] for p in self.layout.parts)]
        for slots in choices:
            if sum(slot.stop - slot.start for slot in slots) == width:
                return [
                    (s.shape[0], math.prod(s.shape[1:])) if len(s.shape) > 1 else (1, s.stop - s.start) for s in slots
                ]
        raise FedloomError(
            f"lowrank acts on weight matrices, and a row of {width:,} numbers is neither the model nor one of its "
            f"parts ({', '.join(self.layout.parts)}): use randomk or sketch."
        )
