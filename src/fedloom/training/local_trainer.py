"""Local training of a cohort: one request, several executions that agree to rounding.

``loop`` trains one client after another with an ordinary module; ``vectorised`` trains all of them in one pass per
step; ``compiled`` is the vectorised step through ``torch.compile``. Each gives every client exactly the batches,
the dropout and the augmentation it would get alone. With the privacy of samples all of them are DP-SGD.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

import fedloom.registry.user_schedules  # noqa: F401  # where a user's own schedules are found, in every process
from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Augment, Inputs
from fedloom.core.model.stages import parameters_until
from fedloom.core.seeds import generator
from fedloom.core.task import Task
from fedloom.core.trainer import LossStep, TrainingRequest, TrainingResult
from fedloom.training.batches import Assignment, BatchStep
from fedloom.training.dpsgd.private_steps import train_privately
from fedloom.training.evaluation import Evaluator
from fedloom.training.keyed_dropout import client_key
from fedloom.training.loop import train_loop
from fedloom.training.optimizers.make import make_optimizer
from fedloom.training.optimizers.optimizer import Optimizer
from fedloom.training.optimizers.user_optimizer import UserOptimizer, optimizer_class
from fedloom.training.step_rates import rate_sums, rate_table
from fedloom.training.vectorised import train_vectorised


class LocalTrainer(Evaluator):
    """Trains and evaluates rows of one task's model in one process."""

    def __init__(self, task: Task, execution: str) -> None:
        super().__init__(task, execution)
        # Counters (BatchNorm's batches) are whole numbers and not part of a row, so every client starts from these.
        whole = {name: b for name, b in self.model.named_buffers() if not b.is_floating_point()}
        self.counters = {name: b.clone() for name, b in whole.items() if not name.endswith("noise_key")}
        self.compiled: dict[Any, Any] = {}
        self._user_optimizers: dict[str, type[torch.optim.Optimizer]] = {}
        self._until: dict[int, frozenset[str]] = {}
        self.by_classes_seen: dict[int, LocalTrainer] = {}
        """In a stream, the trainers of later rounds."""

    def at(self, round_number: int) -> LocalTrainer:
        """The trainer of a round: in a stream, of the classes seen so far."""
        task = self.task.at(round_number)
        if task is self.task or task.federation.seen is None:  # drift changes lists of positions, and no objective
            return self
        number = len(task.federation.seen)
        if number not in self.by_classes_seen:
            # The model stays the same, so its traced graph does; a compiled step has the old objective inside.
            graph = self._graph_or_reason
            trainer = copy(self)
            trainer.task, trainer.compiled, trainer.by_classes_seen = task, {}, {}
            trainer.__dict__["_graph_or_reason"] = graph
            self.by_classes_seen[number] = trainer
        return self.by_classes_seen[number]

    def keys(self, request: TrainingRequest) -> Tensor:
        """A noise key per client, where the model drops units."""
        if not self.drops:
            return torch.zeros(len(request.clients), dtype=torch.int64)
        return torch.tensor([client_key(request.seed, request.round, client) for client in request.clients])

    def augmentation(self, request: TrainingRequest) -> Augment | None:
        """How samples are augmented: as the request says, else clients' own as the task does."""
        return self.task.augment if request.augment is None and request.on is None else request.augment

    def augmenters(self, request: TrainingRequest) -> list[torch.Generator]:
        """An augmentation generator per client, where samples are augmented."""
        if self.augmentation(request) is None:
            return []
        return [generator(request.seed, "augment", request.round, client) for client in request.clients]

    def moving(self, request: TrainingRequest, step: LossStep) -> list[str]:
        """The names of the parameters that a step of a request changes."""
        names = [slot.name for slot in self.layout.moving(request.part)]
        if step.until is None:
            return names
        if step.until not in self._until:  # which parameters a loss can reach is found by a backward pass
            some = next((own for own in request.positions if len(own)), self.task.sample)
            sample = self.task.inputs(some[:1])
            self._until[step.until] = parameters_until(self.task.model, sample, step.until)
        return [name for name in names if name in self._until[step.until]]

    def optimizer(self, request: TrainingRequest, parameters: list[nn.Parameter]) -> Optimizer | UserOptimizer:
        """The optimiser of one client's parameters."""
        work = request.work
        if not work.has_own_optimizer:
            return make_optimizer(work, request.lr, [parameter.detach().unsqueeze(0) for parameter in parameters])
        if work.optimizer not in self._user_optimizers:  # while a run goes on its class stays the same
            self._user_optimizers[work.optimizer] = optimizer_class(work.optimizer)
        return UserOptimizer(self._user_optimizers[work.optimizer], work, request.lr, parameters)

    def targets(self, request: TrainingRequest, step: LossStep, positions: Tensor) -> Tensor:
        """What a step's loss gets as targets; a method's own loss gets the samples' places in ``on``, if they are."""
        if request.on is None or step.loss is None:
            return self.task.targets(positions)
        # A method's loss looks up what it knows of sample i (a teacher's output, say), not the sample's label.
        return torch.searchsorted(request.on.contiguous(), positions.contiguous())

    def batch(self, request: TrainingRequest, step: BatchStep, augmenters: list[torch.Generator]) -> Inputs:
        """A step's inputs, each client's real samples augmented with its own generator."""
        x, augment = self.task.inputs(step.positions), self.augmentation(request)
        if augment is None or isinstance(x, dict):
            return x
        out, places = x, range(step.rows) if isinstance(step.rows, int) else step.rows.tolist()
        for i, place in enumerate(places):
            # Padding must not draw from a client's generator, or its augmentation would depend on who trains with it.
            real = x.shape[1] if step.mask is None else int(step.mask[i].sum())
            views = augment(x[i, :real], augmenters[place])
            if out is x and views.shape[1:] != x.shape[2:]:  # two views of each sample, say
                out = views.new_zeros(*x.shape[:2], *views.shape[1:])
            out[i, :real] = views
            if out is not x:
                out[i, real:] = views[:1]
        return out

    def train(self, request: TrainingRequest) -> TrainingResult:
        """Train each row on its client's samples."""
        work, cycle = request.work, request.cycle
        assignments = [
            Assignment.of(client, positions, work, request.seed, request.round)
            for client, positions in zip(request.clients, request.positions, strict=True)
        ]
        steps = torch.tensor([one.steps for one in assignments]) * len(request.lrs) * len(request.loss_steps)
        if not int(steps.max()):
            return TrainingResult(request.rows.clone(), request.rows, steps, steps * 0.0)
        if cycle is not None and len(cycle.lrs) > 1 and (work.optimizer != "sgd" or work.momentum):
            raise FedloomError(
                "this method takes plain gradient steps: set local.optimizer = sgd and local.momentum = 0."
            )
        if cycle is not None and request.rates is not None:
            raise FedloomError(
                "this method makes several steps with each batch, at rates of its own: leave out local.round_schedule, "
                "or a local.schedule of your own that depends on steps."
            )
        rates = rate_table(request, assignments)
        # DP-SGD first: it is its own loop over batches, drawn at random, whatever execution the run has.
        if request.privacy is not None:
            rows = anchors = train_privately(self, request, assignments, request.privacy, rates)
        elif self.execution == "loop":
            rows, anchors = train_loop(self, request, assignments, rates)
        elif self.execution == "compiled":
            from fedloom.training.compiled import train_compiled  # it imports the compiler

            rows = anchors = train_compiled(self, request, assignments, rates)
        else:
            rows, anchors = train_vectorised(self, request, assignments, rates)
        return TrainingResult(rows, anchors, steps, rate_sums(request, rates, steps))
