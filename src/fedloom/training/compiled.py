"""The vectorised step through ``torch.compile``: seconds of compilation once, then fast training of small models.

Shapes never change, so there is one compilation per cohort size: every step takes all clients and a full batch; a
client with a smaller batch, or with none left, is masked, and stays as it was. The step is a pure function of
tensors. Under plain SGD a chain of layers goes backwards by hand: the loss gradient is scaled by minus the
learning rate before it enters the chain, so each weight's new value is one product added to the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch._dynamo
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs
from fedloom.core.metric import divisor
from fedloom.core.network import Loss
from fedloom.core.objective import Objective
from fedloom.core.pull import Affine, Pull
from fedloom.core.trainer import GivenToLoss, TrainingRequest
from fedloom.training.batches import Assignment, lockstep
from fedloom.training.keyed_dropout import KeyedDropout, step_key
from fedloom.training.layer_graph import Operation
from fedloom.training.optimizers.make import make_optimizer
from fedloom.training.stacked import NARROW, run_vmap
from fedloom.training.vectorised import method_losses

if TYPE_CHECKING:
    from fedloom.training.local_trainer import LocalTrainer

Stacks = dict[str, Tensor]
COMPILATIONS = 64
"""Cohort shapes that one process compiles for; more would mean that shapes change all the time."""
Batch = tuple[Inputs, Tensor, Tensor, Tensor, Tensor]
"""Inputs, targets, mask, noise keys and the number of a step."""
MethodTerms = tuple[Pull | None, Loss | None, Stacks, dict[str, Stacks], GivenToLoss]
"""A method's pull and loss, the received rows, and what is given to the pull and to the loss."""


def train_compiled(
    trainer: LocalTrainer, request: TrainingRequest, assignments: Sequence[Assignment], rates: Tensor | None
) -> Tensor:
    """The rows after local training of a cohort with the compiled step."""
    if request.cycle is not None or len(request.loss_steps) > 1:
        raise FedloomError(
            "execution 'compiled' supports one step per batch, but this method takes several: use vectorised or loop."
        )
    layout, work = trainer.layout, request.work
    pull = request.pull.pull if isinstance(request.pull, Affine) else request.pull
    (aim,) = request.loss_steps
    moving = tuple(trainer.moving(request, aim))
    stacks = trainer.stacks(request.rows)
    received = layout.stacks(request.rows) if request.pull is not None else {}
    given = {name: layout.pieces(rows) for name, rows in request.given_to_pull.items()} if received else {}
    seen = request.given_to_loss(layout) if aim.loss is not None else {}
    state = make_optimizer(work, request.lr, [stacks[name] for name in moving]).state
    # Work and moving parameters are constants inside the compiled code; pulls and losses are arguments.
    step = trainer.compiled.get((work, moving)) or torch.compile(_step_of(trainer, request, moving), dynamic=False)
    trainer.compiled[work, moving] = step
    keys, augmenters, lr = trainer.keys(request), trainer.augmenters(request), torch.tensor(request.lr)
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=COMPILATIONS, fail_on_recompile_limit_hit=True):
        for number, batch in enumerate(lockstep(assignments)):
            x, y = trainer.batch(request, batch, augmenters), trainer.targets(request, aim, batch.positions)
            noise = step_key(keys, number) if trainer.drops else keys
            method = (pull, aim.loss, received, given, seen)
            steps = torch.full_like(keys, number)
            if rates is not None:
                lr = rates[:, number].float()
            moved, state = step(stacks, state, method, lr, (x, y, batch.mask, noise, steps))
            stacks |= moved
    return layout.unstack(stacks)


def _step_of(
    trainer: LocalTrainer, request: TrainingRequest, moving: tuple[str, ...]
) -> Callable[..., tuple[Stacks, list[list[Tensor]]]]:
    """The step of a model under some local work, as a pure function of tensors."""
    graph, model, objective, work = trainer.graph, trainer.model, trainer.task.objective, request.work
    plain = work.is_plain_sgd and work.clip is None
    chain = graph.training if graph is not None and graph.is_chain and plain else None

    def step(
        stacks: Stacks, state: list[list[Tensor]], method: MethodTerms, lr: Tensor, batch: Batch
    ) -> tuple[Stacks, list[list[Tensor]]]:
        pull, loss, received, given, seen = method

        def added(name: str) -> Tensor:
            """What weight decay and the method's pull add to a gradient."""
            value = stacks[name]
            pulled = (
                0.0 if pull is None else pull(value, received[name], **{k: rows[name] for k, rows in given.items()})
            )
            return work.decay * value + pulled

        adds = work.decay > 0 or pull is not None
        x, y, mask, noise, _ = batch
        if chain is not None and loss is None and isinstance(x, Tensor):
            pulled = added if adds else None
            return _chain_step(chain, objective, stacks, moving, pulled, lr, (x, y, mask, noise)), state

        def total(values: Stacks) -> Tensor:
            tensors = {**stacks, **values}
            if loss is not None:
                return _mean(*method_losses(model, loss, tensors, batch, seen), mask)
            if graph is None or isinstance(x, dict):
                return _loss(objective, run_vmap(model, tensors, x, noise), y, mask)
            results = [x]
            for one in graph.training:
                results.append(_forward(one, tensors, [results[place] for place in one.inputs], noise))
            return _loss(objective, results[-1], y, mask)

        gradients = torch.func.grad(total)({name: stacks[name] for name in moving})
        if pull is not None:
            for name in moving:
                extra = {k: rows[name] for k, rows in given.items()}
                gradients[name] = gradients[name] + pull(stacks[name], received[name], **extra)
        values = [stacks[name].clone() for name in moving]
        after = [[tensor.clone() for tensor in group] for group in state]
        make_optimizer(work, lr, values, after).step([gradients[name] for name in moving])
        active = mask.sum(1) > 0
        moved = {name: _where(active, new, stacks[name]) for name, new in zip(moving, values, strict=True)}
        kept = [[_where(active, a, b) for a, b in zip(*pair, strict=True)] for pair in zip(after, state, strict=True)]
        return moved, kept

    return step


def _where(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(active.view(-1, *[1] * (new.dim() - 1)), new, old)


def _loss(objective: Objective, outputs: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """Each client's mean loss over the samples that count, summed over clients."""
    return _mean(*objective.losses(outputs.flatten(0, 1), y.flatten(0, 1)), mask)


def _mean(losses: Tensor, counts: Tensor, mask: Tensor) -> Tensor:
    """The sum over clients of each one's mean over the samples that count."""
    losses, counts = losses.view(mask.shape) * mask, counts.view(mask.shape) * mask
    return (losses.sum(1) / divisor(counts.sum(1))).sum()


def _chain_step(
    chain: Sequence[Operation],
    objective: Objective,
    stacks: Stacks,
    moving: tuple[str, ...],
    added: Callable[[str], Tensor] | None,
    lr: Tensor,
    batch: tuple[Tensor, Tensor, Tensor, Tensor],
) -> Stacks:
    """Plain SGD on a chain of layers, with a handwritten backward pass."""
    x, y, mask, noise = batch
    inputs, moved = [], {}
    for operation in chain:
        inputs.append(x)
        x = _forward(operation, stacks, [x], noise)
    rates = lr if lr.dim() == 0 else lr.view(-1, *[1] * (x.dim() - 1))
    gradient = -rates * torch.func.grad(lambda outputs: _loss(objective, outputs, y, mask))(x)
    rate = -lr * (mask.sum(1) > 0)
    first = next(operation.name for operation in chain if operation.name)
    for operation, x in zip(reversed(chain), reversed(inputs), strict=True):
        name = operation.name
        if not isinstance(operation.layer, nn.Linear):
            _, back = torch.func.vjp(lambda x, one=operation: _forward(one, stacks, [x], noise), x)  # type: ignore[misc]
            (gradient,) = back(gradient)
            continue
        flat_x, flat_g = (t.flatten(1, -2) if t.dim() != 3 else t for t in (x, gradient))
        for leaf in (f"{name}.weight", f"{name}.bias"):
            if leaf in moving:
                start = stacks[leaf]
                if added is not None:
                    start = start + rate.view(-1, *[1] * (start.dim() - 1)) * added(leaf)
                bias = start.dim() == 2
                moved[leaf] = start + flat_g.sum(1) if bias else torch.baddbmm(start, flat_g.transpose(1, 2), flat_x)
        if name == first:
            break
        gradient = torch.bmm(flat_g, stacks[f"{name}.weight"]).view(x.shape)
    return moved


def _forward(operation: Operation, stacks: Stacks, inputs: Sequence[Tensor], noise: Tensor) -> Tensor:
    if isinstance(operation.layer, KeyedDropout):
        return operation.layer.drop(inputs[0], noise, operation.turn)
    if not isinstance(operation.layer, nn.Linear):
        return operation.layer(*inputs)
    (x,), name = inputs, operation.name
    weight, bias = stacks[f"{name}.weight"], stacks.get(f"{name}.bias")
    flat = x.flatten(1, -2) if x.dim() != 3 else x
    if weight.shape[1] < NARROW:
        wide = torch.bmm(weight, flat.transpose(1, 2))
        result = (wide if bias is None else wide + bias.unsqueeze(2)).transpose(1, 2)
    else:
        result = torch.bmm(flat, weight.transpose(1, 2))
        result = result if bias is None else result + bias.unsqueeze(1)
    return result.reshape(*x.shape[:-1], -1) if x.dim() != 3 else result
