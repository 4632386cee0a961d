"""The execution ``vectorised``: all clients of a cohort in one pass per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs
from fedloom.core.local_work import LocalWork
from fedloom.core.metric import divisor
from fedloom.core.model.adapted_model import AdaptedModel
from fedloom.core.network import Loss
from fedloom.core.trainer import GivenToLoss, TrainingRequest, given_of
from fedloom.training.accumulation import Batch, add_gradients, batches_of_step
from fedloom.training.batches import Assignment, interleave
from fedloom.training.chain_pass import ChainGradients
from fedloom.training.cycle_memory import CycleMemory
from fedloom.training.functional_network import FunctionalNetwork
from fedloom.training.gradients import add_affine_pull
from fedloom.training.in_place_sgd import InPlaceSGD
from fedloom.training.keyed_dropout import KeyedDropout, step_key
from fedloom.training.layer_graph import Operation
from fedloom.training.optimizers.make import make_optimizer
from fedloom.training.optimizers.optimizer import Optimizer, Rate
from fedloom.training.stacked import gradients_of, run_stacked
from fedloom.training.step_rates import rate_of_step

if TYPE_CHECKING:
    from fedloom.training.local_trainer import LocalTrainer


Chain = tuple[Sequence[Operation], ChainGradients]
"""The operations of a chain of layers, and what takes their gradients; empty for other models."""


def train_vectorised(
    trainer: LocalTrainer, request: TrainingRequest, assignments: list[Assignment], rates: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The rows after training all clients together, one batched pass per step, and the cycle's anchor rows."""
    stacks = trainer.stacks(request.rows)
    constants = request.constants
    fixed = {} if constants is None else trainer.layout.stacks(constants)
    pulls = request.pull is not None and constants is None  # a pull that changes with every step
    received = trainer.layout.stacks(request.rows) if pulls else {}
    given = {name: trainer.layout.pieces(rows) for name, rows in request.given_to_pull.items()} if pulls else {}
    seen = request.given_to_loss(trainer.layout) if request.has_own_loss else {}
    aims = [(aim, trainer.moving(request, aim)) for aim in request.loss_steps]
    chains = [_chain(trainer, request, moving, stacks) for _, moving in aims]
    optimizers = [make_optimizer(request.work, request.lr, [stacks[name] for name in moving]) for _, moving in aims]
    memory = CycleMemory(request.cycle, {name: stacks[name] for name in aims[0][1]})
    keys, augmenters = trainer.keys(request), trainer.augmenters(request)
    done = torch.zeros(len(keys), dtype=torch.int64)
    turns = done.clone()
    for step in interleave(assignments):
        cut = slice(step.rows) if isinstance(step.rows, int) else step.rows
        extra = {key: {name: stack[cut] for name, stack in rows.items()} for key, rows in given.items()}
        own = given_of(seen, cut)
        whole_x = trainer.batch(request, step, augmenters)
        lrs: tuple[Rate, ...] = request.lrs if rates is None else (rate_of_step(rates, step.rows, turns),)
        turns[cut] += 1
        for (aim, moving), optimizer, chain in zip(aims, optimizers, chains, strict=True):
            piece = {name: stack[cut] for name, stack in stacks.items()}
            part = optimizer.part(step.rows)
            piece.update(zip(moving, part.values, strict=True))
            whole_y = trainer.targets(request, aim, step.positions)
            for number, lr in enumerate(lrs):
                x, y, mask = whole_x, whole_y, step.mask
                if request.cycle is not None:
                    x, y, mask = request.cycle.deal(x, y, mask, number)
                anchor = {name: memory.anchor(name, received)[cut] for name in received}
                noise = step_key(keys[cut], done[cut]) if trainer.drops else keys[cut]
                part.lr = lr
                memory.before(part.values)
                some = {name: stack if len(stack) == 1 else stack[cut] for name, stack in fixed.items()}
                batch = (x, y, mask, noise, done[cut])
                _step(trainer, request, aim.loss, moving, chain, piece, part, anchor, extra, own, some, batch)
                memory.settle(number, part.values, cut)
                done[cut] += 1
            if not isinstance(step.rows, int):  # indexing by a list copied the rows; a slice would be a view
                optimizer.put_back(part, step.rows)
    rows = trainer.layout.unstack(stacks)
    if request.cycle is None:
        return rows, rows
    return rows, trainer.layout.unstack({slot.name: memory.anchor(slot.name, stacks) for slot in trainer.layout.slots})


def _step(
    trainer: LocalTrainer,
    request: TrainingRequest,
    own_loss: Loss | None,
    moving: list[str],
    chain: Chain,
    stacks: dict[str, Tensor],
    optimizer: Optimizer,
    received: dict[str, Tensor],
    given: dict[str, dict[str, Tensor]],
    seen: GivenToLoss,
    constants: dict[str, Tensor],
    batch: tuple[Inputs, Tensor, Tensor | None, Tensor, Tensor],
) -> None:
    work, (x, y, mask, keys, steps) = request.work, batch

    def pull(name: str, value: Tensor) -> Tensor:
        extra = {key: rows[name] for key, rows in given.items()}
        return request.pull(value, received[name], **extra)  # type: ignore[misc]

    def task_losses(outputs: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return _of_clients(*trainer.task.objective.losses(outputs.flatten(0, 1), y.flatten(0, 1)), y, mask)

    def task_loss(outputs: Tensor) -> Tensor:
        return _sum_of_means(*task_losses(outputs, y, mask))

    (operations, taken), is_chain = chain, bool(chain[0]) and own_loss is None
    if is_chain and isinstance(x, Tensor) and not isinstance(optimizer.lr, Tensor) and _is_in_place(work):
        puller = pull if request.pull is not None and not constants else None
        sgd = InPlaceSGD(frozenset(moving), optimizer.lr, work.decay + request.slope, constants, puller)
        sgd.run(operations, stacks, x, keys, task_loss)
        optimizer.state[-1][0] += 1
        return

    def losses_of(some: Batch) -> tuple[Tensor, Tensor]:
        """Sums of losses and of counts of each client."""
        x, y, mask, keys = some
        if own_loss is None:
            return task_losses(run_stacked(trainer.model, trainer.graph, stacks, x, keys), y, mask)
        real = torch.ones(y.shape[:2]) if mask is None else mask
        if work.accumulate > 1:  # a batch of nothing but padding has no mean, and does not count
            real = torch.where(real.sum(1, keepdim=True) > 0, real, 1.0)
        found = method_losses(trainer.model, own_loss, stacks, (x, y, real, keys, steps), seen)
        return _of_clients(*found, y, mask)

    if is_chain and isinstance(x, Tensor):
        taken.run(operations, stacks, x, keys, task_loss)
        values, gradients = optimizer.values, taken.of_first(len(y), moving)
    else:
        values = [value.requires_grad_() for value in optimizer.values]
        stacks.update(zip(moving, values, strict=True))
        gradients = _gradients(losses_of, (x, y, mask, keys), values, work)
    with torch.no_grad():
        if constants:
            gradients = add_affine_pull(request, gradients, values, [constants[name] for name in moving])
        elif request.pull is not None:
            gradients = [g + pull(n, v) for g, n, v in zip(gradients, moving, values, strict=True)]
    optimizer.step(gradients)


def _of_clients(losses: Tensor, counts: Tensor, y: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The sums of each client's losses and counts, without those of padding."""
    losses, counts = losses.view(y.shape[:2]), counts.view(y.shape[:2])
    if mask is not None:
        losses, counts = losses * mask, counts * mask
    return losses.sum(1), counts.sum(1)


def _sum_of_means(losses: Tensor, counts: Tensor) -> Tensor:
    """Each client's mean loss, summed over clients."""
    return (losses / divisor(counts)).sum()


def _gradients(
    losses_of: Callable[[Batch], tuple[Tensor, Tensor]], batch: Batch, leaves: list[Tensor], work: LocalWork
) -> list[Tensor]:
    """The gradients of each client's mean loss over the samples of a step."""
    if work.accumulate == 1:
        return gradients_of(_sum_of_means(*losses_of(batch)), leaves)
    total, count = list[Tensor](), torch.zeros(len(leaves[0]))
    for some in batches_of_step(batch, work.batch_size, axis=1):
        losses, counts = losses_of(some)
        total, count = add_gradients(total, gradients_of(losses.sum(), leaves)), count + counts
    return [g / divisor(count).view(-1, *[1] * (g.dim() - 1)) for g in total]


def _chain(trainer: LocalTrainer, request: TrainingRequest, moving: list[str], stacks: dict[str, Tensor]) -> Chain:
    """The operations of a model that is a chain of layers, and what takes its gradients; empty for anything else.

    The weights of added modules are in no operation, but weight decay and pulls move them too.
    """
    graph, fits = trainer.graph, request.work.accumulate == 1 and not isinstance(trainer.model, AdaptedModel)
    if graph is None or not graph.is_chain or not fits:
        return (), ChainGradients(frozenset(), {})
    is_plain = _is_in_place(request.work)
    memory = {} if is_plain else {name: torch.zeros_like(stacks[name]) for name in moving}
    return graph.training, ChainGradients(frozenset(moving), memory)


def _is_in_place(work: LocalWork) -> bool:
    """Whether steps are plain SGD, which never stores a gradient."""
    return work.is_plain_sgd and work.clip is None and not work.changes_within_round


def method_losses(
    model: nn.Module,
    loss: Loss,
    stacks: Mapping[str, Tensor],
    batch: tuple[Inputs, Tensor, Tensor, Tensor, Tensor],
    given: GivenToLoss,
) -> tuple[Tensor, Tensor]:
    """Values and counts of a method's own loss for each client and sample; a batch is inputs, targets, mask, keys, and
    the number of each client's step."""
    drops = [n for n, layer in model.named_modules() if isinstance(layer, KeyedDropout)]

    def one(
        tensors: dict[str, Tensor], x: Inputs, y: Tensor, mask: Tensor, key: Tensor, step: Tensor, given: GivenToLoss
    ) -> tuple[Tensor, Tensor]:
        noise = {f"{name}.noise_key": key for name in drops}
        return loss(FunctionalNetwork(model, {**tensors, **noise}, mask, step), x, y, given)

    model.train()
    result: tuple[Tensor, Tensor] = torch.func.vmap(one, randomness="error")(dict(stacks), *batch, given)
    return result
