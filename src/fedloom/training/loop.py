"""The execution ``loop``: one client after another, with an ordinary module whose memory is reused."""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.inputs import Inputs, map_inputs
from fedloom.core.metric import divisor
from fedloom.core.model.model_output import chosen_output
from fedloom.core.trainer import GivenToLoss, LossStep, TrainingRequest, given_of
from fedloom.training.accumulation import Batch, add_gradients, batches_of_step
from fedloom.training.batches import Assignment
from fedloom.training.cycle_memory import CycleMemory
from fedloom.training.functional_network import FunctionalNetwork
from fedloom.training.gradients import add_affine_pull
from fedloom.training.keyed_dropout import client_key, step_key
from fedloom.training.stacked import gradients_of

if TYPE_CHECKING:
    from fedloom.training.local_trainer import LocalTrainer


def train_loop(
    trainer: LocalTrainer, request: TrainingRequest, assignments: list[Assignment], rates: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The rows after training one client after another, and the cycle's anchor rows."""
    out = request.rows.clone()
    anchors = out if request.cycle is None else request.rows.clone()
    augmenters = trainer.augmenters(request)
    for place, assignment in enumerate(assignments):
        augmenter = augmenters[place] if augmenters else None
        try:
            own = None if rates is None else rates[place].tolist()
            _train_one(trainer, out[place], anchors[place], request, place, assignment, augmenter, own)
        except ValueError as error:
            layer = _batch_norm(trainer.model)
            if layer is None or "more than 1 value per channel" not in str(error):
                raise
            name, size = trainer.task.federation.name(assignment.client), request.work.batch_size
            where = f"the last batch of client {name}, which has {assignment.samples} samples,"
            if request.cycle is not None:
                where = f"a batch of client {name}, split into {request.cycle.deals} parts,"
            raise FedloomError(
                f"{where} leaves a single sample, but {layer} needs two: choose a batch_size other than {size}, or "
                "use GroupNorm."
            ) from None
    return out, anchors


def _batch_norm(model: nn.Module) -> str | None:
    """The class of the model's first BatchNorm; a GroupNorm that has too few values was refused before the run."""
    layers = (type(layer).__name__ for layer in model.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm))
    return next(layers, None)


def _train_one(
    trainer: LocalTrainer,
    row: Tensor,
    anchor: Tensor,
    request: TrainingRequest,
    place: int,
    work: Assignment,
    augmenter: torch.Generator | None,
    rates: list[float] | None,
) -> None:
    model, layout = trainer.model, trainer.layout
    layout.fill(model, row)
    for name, counter in trainer.counters.items():
        model.get_buffer(name).copy_(counter)
    model.train()
    named = dict(model.named_parameters())
    aims = [(aim, trainer.moving(request, aim)) for aim in request.loss_steps]
    for name, parameter in named.items():
        parameter.requires_grad_(any(name in moving for _, moving in aims))
    received = layout.views(request.rows[place])
    given = {
        name: {part: piece[0] for part, piece in layout.pieces(rows[place : place + 1]).items()}
        for name, rows in request.given_to_pull.items()
    }
    own = replace(request, given={name: value[place : place + 1] for name, value in request.given.items()})
    seen = given_of(own.given_to_loss(layout), 0) if request.has_own_loss else {}
    optimizers = [trainer.optimizer(request, [named[name] for name in moving]) for _, moving in aims]
    memory = CycleMemory(request.cycle, {name: received[name].unsqueeze(0) for name in aims[0][1]})
    constants, fixed = request.constants, {}
    if constants is not None:
        fixed = layout.views(constants[place if len(constants) > 1 else 0])
    noise = torch.tensor(client_key(request.seed, request.round, work.client))
    steps = 0
    with torch.random.fork_rng(devices=[]):
        # for layers that draw from torch's own generator; torch.manual_seed would format a stack trace every time
        torch.default_generator.manual_seed(int(noise))
        for turn, positions in enumerate(work):
            whole_x = _inputs(trainer, request, positions, augmenter)
            for (aim, moving), optimizer in zip(aims, optimizers, strict=True):
                whole_y, values = trainer.targets(request, aim, positions), [named[name] for name in moving]
                for number, lr in enumerate(request.lrs if rates is None else rates[turn : turn + 1]):
                    x, y = whole_x, whole_y
                    if request.cycle is not None:
                        cut = request.cycle.cut(len(positions), number)
                        x, y = map_inputs(itemgetter(cut), x), y[cut]
                    batch = (x, y, None, step_key(noise, steps))
                    gradients = _gradients(trainer, request, aim, batch, values, (named, steps, seen))
                    with torch.no_grad():
                        if fixed:
                            gradients = add_affine_pull(request, gradients, values, [fixed[name] for name in moving])
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
    # Buffers of floats (running means) are part of a row: they are averaged like weights.
    tensors = {**named, **dict(model.named_buffers())}
    for name, view in layout.views(row).items():
        view.copy_(tensors[name].detach())
    if request.cycle is not None:
        anchor.copy_(row)
        for name, view in layout.views(anchor).items():
            view.copy_(memory.anchor(name, {name: view}).view_as(view))


def _gradients(
    trainer: LocalTrainer,
    request: TrainingRequest,
    aim: LossStep,
    batch: Batch,
    values: list[nn.Parameter],
    seen: tuple[dict[str, nn.Parameter], int, GivenToLoss],
) -> list[Tensor]:
    """The gradients of the mean loss of a step's samples; ``seen`` is what a method's own loss needs."""
    if request.work.accumulate == 1:
        losses, counts = _losses(trainer, aim, batch, seen)
        return gradients_of(losses.sum() / divisor(counts.sum()), values)
    total, count = list[Tensor](), torch.zeros(())
    for some in batches_of_step(batch, request.work.batch_size, axis=0):
        losses, counts = _losses(trainer, aim, some, seen)
        total, count = add_gradients(total, gradients_of(losses.sum(), values)), count + counts.sum()
    return [g / divisor(count) for g in total]


def _losses(
    trainer: LocalTrainer,
    aim: LossStep,
    batch: Batch,
    seen: tuple[dict[str, nn.Parameter], int, GivenToLoss],
) -> tuple[Tensor, Tensor]:
    """Values and counts of the loss of a batch's samples."""
    (x, y, _, key), (named, steps, given) = batch, seen
    for layer in trainer.drops:
        layer.noise_key, layer.turn = key, 0
    if aim.loss is None:
        return trainer.task.objective.losses(chosen_output(trainer.model, trainer.model(x)), y)
    net = FunctionalNetwork(trainer.model, named, torch.ones(len(y)), torch.tensor(steps))
    return aim.loss(net, x, y, given)


def _inputs(
    trainer: LocalTrainer, request: TrainingRequest, positions: Tensor, augmenter: torch.Generator | None
) -> Inputs:
    """A batch's inputs, augmented, in the memory format of the model's convolutions."""
    x, augment = trainer.task.inputs(positions), trainer.augmentation(request)
    if isinstance(x, dict):
        return {name: _in_format(trainer, column) for name, column in x.items()}
    return _in_format(trainer, x if augment is None or augmenter is None else augment(x, augmenter))


def _in_format(trainer: LocalTrainer, x: Tensor) -> Tensor:
    return x.contiguous(memory_format=trainer.format) if x.dim() == 4 else x
