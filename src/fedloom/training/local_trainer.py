"""Local training of a cohort: one request, several executions that agree to rounding.

``loop`` trains one client after another with an ordinary module; ``vectorised`` trains all of them in one pass per
step; ``compiled`` is the vectorised step through ``torch.compile``. Each gives every client exactly the batches,
the dropout and the augmentation it would get alone. With the privacy of samples all of them are DP-SGD.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.seeds import generator
from fedloom.core.task import Task
from fedloom.core.trainer import TrainingRequest, TrainingResult
from fedloom.training.batches import Assignment, BatchStep
from fedloom.training.evaluation import Evaluator
from fedloom.training.keyed_dropout import client_key
from fedloom.training.loop import train_loop
from fedloom.training.private_steps import train_privately
from fedloom.training.vectorised import train_vectorised


class LocalTrainer(Evaluator):
    """Trains and evaluates rows of one task's model in one process."""

    def __init__(self, task: Task, execution: str) -> None:
        super().__init__(task, execution)
        whole = {name: b for name, b in self.model.named_buffers() if not b.is_floating_point()}
        self.counters = {name: b.clone() for name, b in whole.items() if not name.endswith("noise_key")}
        self.compiled: dict[Any, Any] = {}

    def keys(self, request: TrainingRequest) -> Tensor:
        """A noise key per client, where the model drops units."""
        if not self.drops:
            return torch.zeros(len(request.clients), dtype=torch.int64)
        return torch.tensor([client_key(request.seed, request.round, client) for client in request.clients])

    def augmenters(self, request: TrainingRequest) -> list[torch.Generator]:
        """An augmentation generator per client, where the task augments."""
        if self.task.augment is None:
            return []
        return [generator(request.seed, "augment", request.round, client) for client in request.clients]

    def batch(self, step: BatchStep, augmenters: list[torch.Generator]) -> tuple[Inputs, Tensor]:
        """A step's inputs and targets, each client's real samples augmented with its own generator."""
        x, y = self.task.inputs(step.positions), self.task.targets(step.positions)
        if self.task.augment is None or isinstance(x, dict):
            return x, y
        places = range(step.rows) if isinstance(step.rows, int) else step.rows.tolist()
        for i, place in enumerate(places):
            real = x.shape[1] if step.mask is None else int(step.mask[i].sum())
            x[i, :real] = self.task.augment(x[i, :real], augmenters[place])
        return x, y

    def train(self, request: TrainingRequest) -> TrainingResult:
        """Train each row on its client's samples."""
        work, cycle = request.work, request.cycle
        assignments = [
            Assignment.of(client, positions, work, request.seed, request.round)
            for client, positions in zip(request.clients, request.positions, strict=True)
        ]
        steps = torch.tensor([one.steps for one in assignments]) * len(request.lrs)
        if not int(steps.max()):
            return TrainingResult(request.rows.clone(), request.rows, steps)
        if cycle is not None and len(cycle.lrs) > 1 and (work.optimizer != "sgd" or work.momentum):
            raise FedloomError(
                "this method takes plain gradient steps: set local.optimizer = sgd and local.momentum = 0."
            )
        if request.privacy is not None:
            rows = anchors = train_privately(self, request, assignments, request.privacy)
        elif self.execution == "loop":
            rows, anchors = train_loop(self, request, assignments)
        elif self.execution == "compiled":
            from fedloom.training.compiled import train_compiled  # it imports the compiler

            rows = anchors = train_compiled(self, request, assignments)
        else:
            rows, anchors = train_vectorised(self, request, assignments)
        return TrainingResult(rows, anchors, steps)
