"""Local training of a cohort: one request, several executions that agree to rounding.

``loop`` trains one client after another with an ordinary module; ``vectorised`` trains all of them in one pass per
step; ``compiled`` is the vectorised step through ``torch.compile``. Each gives every client exactly the batches,
the dropout and the augmentation it would get alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.network import Loss
from fedloom.core.seeds import generator, key
from fedloom.core.task import Task
from fedloom.core.trainer import TrainingRequest, TrainingResult
from fedloom.training.batches import Assignment, BatchStep, interleave
from fedloom.training.cycle_memory import CycleMemory
from fedloom.training.evaluation import Evaluator, gradients_of
from fedloom.training.functional_network import FunctionalNetwork
from fedloom.training.keyed_dropout import KeyedDropout, step_key
from fedloom.training.optimizer import Optimizer
from fedloom.training.stacked import InPlace, run_chain, run_vmap


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
        return torch.tensor([noise_key(request, client) for client in request.clients])

    def augmenters(self, request: TrainingRequest) -> list[torch.Generator]:
        """An augmentation generator per client, where the task augments."""
        if self.task.augment is None:
            return []
        return [generator(request.seed, "augment", request.round, client) for client in request.clients]

    def batch(self, step: BatchStep, augmenters: list[torch.Generator]) -> tuple[Tensor, Tensor]:
        """A step's inputs and targets, each client's real samples augmented with its own generator."""
        x, y = self.task.inputs(step.positions), self.task.targets(step.positions)
        if self.task.augment is None:
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
                "this method's local step is made of plain gradient steps: use local.optimizer = sgd, momentum 0."
            )
        if self.execution == "loop":
            rows, anchors = self._train_loop(request, assignments)
        elif self.execution == "compiled":
            from fedloom.training.compiled import train_compiled  # it imports the compiler

            rows = anchors = train_compiled(self, request, assignments)
        else:
            rows, anchors = self._train_vectorised(request, assignments)
        return TrainingResult(rows, anchors, steps)

    # -- one client after another

    def _train_loop(self, request: TrainingRequest, assignments: list[Assignment]) -> tuple[Tensor, Tensor]:
        """Train each client with an ordinary module whose memory is reused from client to client."""
        out = request.rows.clone()
        anchors = out if request.cycle is None else request.rows.clone()
        augmenters = self.augmenters(request)
        for place, assignment in enumerate(assignments):
            augmenter = augmenters[place] if augmenters else None
            try:
                self._train_one(out[place], anchors[place], request, place, assignment, augmenter)
            except ValueError as error:
                if "more than 1 value per channel" not in str(error):
                    raise
                name, size = self.task.federation.name(assignment.client), assignment.batch_size
                why = f"has {assignment.samples} samples, whose last batch of one"
                if request.cycle is not None:
                    why = f"deals its batches into {request.cycle.deals} parts, and a part of one"
                why += f" BatchNorm cannot take: choose another batch_size than {size}, or use GroupNorm."
                raise FedloomError(f"client {name} {why}") from None
        return out, anchors

    def _train_one(
        self,
        row: Tensor,
        anchor: Tensor,
        request: TrainingRequest,
        place: int,
        work: Assignment,
        augmenter: torch.Generator | None,
    ) -> None:
        model, layout = self.model, self.layout
        layout.fill(model, row)
        for name, counter in self.counters.items():
            model.get_buffer(name).copy_(counter)
        model.train()
        named = dict(model.named_parameters())
        moving = [slot.name for slot in layout.moving(request.part)]
        values = [named[name] for name in moving]
        for name, parameter in named.items():
            parameter.requires_grad_(name in moving)
        received = layout.views(request.rows[place])
        given = {
            name: {part: piece[0] for part, piece in layout.pieces(rows[place : place + 1]).items()}
            for name, rows in request.given.items()
        }
        optimizer = Optimizer(request.work, request.lr, [v.detach().unsqueeze(0) for v in values])
        memory = CycleMemory(request.cycle, {name: received[name].unsqueeze(0) for name in moving})
        constants, fixed = request.constants, {}
        if constants is not None:
            fixed = layout.views(constants[place if len(constants) > 1 else 0])
        noise = torch.tensor(noise_key(request, work.client))
        steps = 0
        with torch.random.fork_rng(devices=[]):
            # for layers that draw from torch's own generator; torch.manual_seed would format a stack trace every time
            torch.default_generator.manual_seed(int(noise))
            for positions in work:
                whole_x, whole_y = self.task.inputs(positions), self.task.targets(positions)
                if self.task.augment is not None and augmenter is not None:
                    whole_x = self.task.augment(whole_x, augmenter)
                if whole_x.dim() == 4:
                    whole_x = whole_x.contiguous(memory_format=self.format)
                for number, lr in enumerate(request.lrs):
                    x, y = whole_x, whole_y
                    if request.cycle is not None:
                        cut = request.cycle.cut(len(positions), number)
                        x, y = x[cut], y[cut]
                    for layer in self.drops:
                        layer.noise_key, layer.turn = step_key(noise, steps), 0
                    if request.loss is None:
                        losses, counts = self.task.objective.losses(model(x), y)
                    else:
                        losses, counts = request.loss(FunctionalNetwork(model, named), x, y, given)
                    gradients = gradients_of(losses.sum() / counts.sum(), values)
                    with torch.no_grad():
                        if fixed:
                            gradients = _add_affine_pull(request, gradients, values, [fixed[name] for name in moving])
                        elif request.pull is not None:
                            for i, name in enumerate(moving):
                                extra = {key: views[name] for key, views in given.items()}
                                near = memory.anchor(name, received)
                                gradients[i] = gradients[i] + request.pull(values[i], near, **extra)
                    optimizer.lr = lr
                    memory.before(optimizer.values)
                    optimizer.step([g.unsqueeze(0) for g in gradients])
                    memory.settle(number, optimizer.values, slice(None))
                    steps += 1
        tensors = {**named, **dict(model.named_buffers())}
        for name, view in layout.views(row).items():
            view.copy_(tensors[name].detach())
        if request.cycle is not None:
            anchor.copy_(row)
            for name, view in layout.views(anchor).items():
                view.copy_(memory.anchor(name, {name: view}).view_as(view))

    # -- all clients in one pass

    def _train_vectorised(self, request: TrainingRequest, assignments: list[Assignment]) -> tuple[Tensor, Tensor]:
        """Train all clients together: one batched pass per step."""
        moving = [slot.name for slot in self.layout.moving(request.part)]
        stacks = self.layout.stacks(request.rows)
        constants = request.constants
        fixed = {} if constants is None else self.layout.stacks(constants)
        moved = request.pull is not None and constants is None  # the pull must be asked at every step
        received = self.layout.stacks(request.rows) if moved else {}
        needed = request.given if moved or request.loss is not None else {}
        given = {name: self.layout.pieces(rows) for name, rows in needed.items()}
        optimizer = Optimizer(request.work, request.lr, [stacks[name] for name in moving])
        memory = CycleMemory(request.cycle, {name: stacks[name] for name in moving})
        keys, augmenters = self.keys(request), self.augmenters(request)
        done = torch.zeros(len(keys), dtype=torch.int64)
        for step in interleave(assignments):
            cut = slice(step.rows) if isinstance(step.rows, int) else step.rows
            piece = {name: stack[cut] for name, stack in stacks.items()}
            part = optimizer.part(step.rows)
            piece.update(zip(moving, part.values, strict=True))
            extra = {key: {name: stack[cut] for name, stack in rows.items()} for key, rows in given.items()}
            whole_x, whole_y = self.batch(step, augmenters)
            for number, lr in enumerate(request.lrs):
                x, y, mask = whole_x, whole_y, step.mask
                if request.cycle is not None:
                    x, y, mask = request.cycle.deal(x, y, mask, number)
                anchor = {name: memory.anchor(name, received)[cut] for name in received}
                noise = step_key(keys[cut], done[cut]) if self.drops else keys[cut]
                part.lr = lr
                memory.before(part.values)
                some = {name: stack if len(stack) == 1 else stack[cut] for name, stack in fixed.items()}
                self._step(request, moving, piece, part, anchor, extra, some, (x, y, mask), noise)
                memory.settle(number, part.values, cut)
                done[cut] += 1
            if not isinstance(step.rows, int):
                optimizer.put_back(part, step.rows)
        rows = self.layout.unstack(stacks)
        if request.cycle is None:
            return rows, rows
        return rows, self.layout.unstack({name: memory.anchor(name, stacks) for name in stacks})

    def _step(
        self,
        request: TrainingRequest,
        moving: list[str],
        stacks: dict[str, Tensor],
        optimizer: Optimizer,
        received: dict[str, Tensor],
        given: dict[str, dict[str, Tensor]],
        constants: dict[str, Tensor],
        batch: tuple[Tensor, Tensor, Tensor | None],
        keys: Tensor,
    ) -> None:
        work, (x, y, mask) = request.work, batch

        def pull(name: str, value: Tensor) -> Tensor:
            extra = {key: rows[name] for key, rows in given.items()}
            return request.pull(value, received[name], **extra)  # type: ignore[misc]

        plain = work.optimizer == "sgd" and work.momentum == 0 and work.clip is None
        in_place = None
        if self.chain is not None and plain and request.loss is None:
            puller = pull if request.pull is not None and not constants else None
            in_place = InPlace(optimizer.lr, work.weight_decay + request.slope, constants, puller, frozenset(moving))
        leaves = [value.requires_grad_() for value in optimizer.values]
        stacks.update(zip(moving, leaves, strict=True))
        if request.loss is not None:
            losses, counts = self._method_loss(request.loss, stacks, x, y, given, keys)
        else:
            if self.chain is not None:
                outputs = run_chain(self.chain, stacks, x, keys, in_place)
            else:
                outputs = run_vmap(self.model, stacks, x, keys)
            losses, counts = self.task.objective.losses(outputs.flatten(0, 1), y.flatten(0, 1))
        losses, counts = losses.view(x.shape[:2]), counts.view(x.shape[:2])
        if mask is not None:
            losses, counts = losses * mask, counts * mask
        loss = (losses.sum(1) / counts.sum(1)).sum()
        if in_place is not None:
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.state[-1][0] += 1
        else:
            gradients = gradients_of(loss, leaves)
            with torch.no_grad():
                if constants:
                    gradients = _add_affine_pull(request, gradients, leaves, [constants[name] for name in moving])
                elif request.pull is not None:
                    gradients = [g + pull(n, v) for g, n, v in zip(gradients, moving, leaves, strict=True)]
            optimizer.step(gradients)

    def _method_loss(
        self,
        loss: Loss,
        stacks: dict[str, Tensor],
        x: Tensor,
        y: Tensor,
        given: dict[str, dict[str, Tensor]],
        keys: Tensor,
    ) -> tuple[Tensor, Tensor]:
        drops = [n for n, layer in self.model.named_modules() if isinstance(layer, KeyedDropout)]

        def one(
            tensors: dict[str, Tensor], x: Tensor, y: Tensor, given: dict[str, dict[str, Tensor]], key: Tensor
        ) -> tuple[Tensor, Tensor]:
            noise = {f"{name}.noise_key": key for name in drops}
            return loss(FunctionalNetwork(self.model, {**tensors, **noise}), x, y, given)

        self.model.train()
        result: tuple[Tensor, Tensor] = torch.func.vmap(one, randomness="error")(stacks, x, y, given, keys)
        return result


def noise_key(request: TrainingRequest, client: int) -> int:
    """The key of a client's dropout in one training."""
    return key(request.seed, "dropout", request.round, client) & 0xFFFFFFFF


def _add_affine_pull(
    request: TrainingRequest, gradients: list[Tensor], values: Sequence[Tensor], constants: list[Tensor]
) -> list[Tensor]:
    """New gradients: the old ones with an affine pull added."""
    total = list(torch._foreach_add(gradients, constants))
    if request.slope:
        torch._foreach_add_(total, list(values), alpha=request.slope)
    return total
