"""A model is tried before training: one that cannot be trained on its task is one sentence, not an error in round 1.

Nothing is tried where the samples are not here, on the server of a deployment.
"""

from __future__ import annotations

import copy
from traceback import walk_tb

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.model.model_output import chosen_output
from fedloom.core.objective import Loss, Standardised
from fedloom.core.task import Task
from fedloom.losses.own_function import OwnLoss
from fedloom.registry.user_errors import describe_error
from fedloom.training.dpsgd.sample_gradients import clipped_gradient_sums
from fedloom.training.local_trainer import LocalTrainer

PASSES = ((True, 2), (False, 2), (False, 1))
"""Whether the model is in training mode, and how many samples it gets. A last batch may hold one sample."""


def try_models(task: Task) -> None:
    """Refuse models that cannot be trained on their task."""
    check_outputs(task)
    for own in task.by_architecture if task.architectures is not None else ():
        check_outputs(own)


def check_devices(task: Task) -> None:
    """Refuse a task whose model or data are not on the CPU: this version computes there only."""
    model = {**dict(task.model.named_parameters()), **dict(task.model.named_buffers())}
    for what, tensors in (("model", model), ("data", task.federation.columns)):
        for name, tensor in tensors.items():
            if tensor.device.type != "cpu":
                raise FedloomError(
                    f"the {what} of task {task.name} is on the device {tensor.device} ('{name}'), but this version of "
                    "Fedloom computes on the CPU only: move it with .cpu()."
                )


def try_sample_gradients(task: Task) -> None:
    """Refuse a model of which single samples have no gradients, which DP-SGD clips.

    Args:
        task: The task as its clients train on it.
    """
    trainer = LocalTrainer(task, "vectorised")
    positions = task.sample.expand(1, 2)
    moving = [slot.name for slot in task.layout.moving(None)]
    stacks, mask = trainer.stacks(task.initial_row().expand(1, -1)), torch.ones(1, 2)
    batch = (task.inputs(positions), task.targets(positions), mask)
    try:
        clipped_gradient_sums(trainer, stacks, moving, batch, torch.zeros(1, dtype=torch.int64), 1.0)
    except Exception as error:  # whatever a user's model raises
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise FedloomError(
            f"sample_privacy takes the gradient of each sample with torch.func.vmap, which cannot take this model "
            f"({reason}): use another model."
        ) from error


def check_outputs(task: Task) -> None:
    """Refuse a model that does not take a sample of the task, or whose outputs do not fit the task's targets."""
    first = task.sample
    if not len(first) or not task.federation.samples_are_independent:
        return
    model = copy.deepcopy(task.model)
    with torch.random.fork_rng(devices=[]):  # dropout draws from torch's own generator
        for trains, samples in PASSES:
            positions = first.expand(samples)
            outputs = _outputs(task, model.train(trains), positions)
            if not outputs.requires_grad:
                raise FedloomError(
                    f"the outputs of the model {_name(task)} do not depend on a parameter that trains: look for "
                    "detach() or torch.no_grad() in its forward pass."
                )
            outputs = outputs.detach()
            if _form_is_known(task):
                _check_form(task, outputs, task.targets(positions))
            if bool(outputs.isnan().any()):
                raise FedloomError(f"the outputs of the initial model {_name(task)} are NaN: check its weights.")
            _check_loss(task, outputs, task.targets(positions))


def _outputs(task: Task, model: nn.Module, positions: Tensor) -> Tensor:
    x = task.inputs(positions)
    try:
        outputs = chosen_output(model, model(x))
    except FedloomError:
        raise
    except Exception as error:  # whatever a user's model raises
        _refuse_single_values(model, error)
        shape = f" of shape {tuple(x.shape[1:])}" if isinstance(x, Tensor) else ""
        raise FedloomError(
            f"the model {_name(task)} cannot take samples{shape}: {describe_error(error)}; change its layers or the "
            "data."
        ) from error
    if not isinstance(outputs, Tensor) or (outputs.dim() == 0 and len(positions) > 1):
        raise FedloomError(f"the model {_name(task)} must give outputs for each sample, got {_form(outputs)}.")
    return outputs


def _refuse_single_values(model: nn.Module, error: Exception) -> None:
    """Refuse a GroupNorm or an InstanceNorm that normalises each value by itself, if that is what the error says."""
    if not str(error).startswith("Expected more than 1 "):  # value per channel, or spatial element
        return
    owners = [frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__)]
    raised = [owner for owner in owners if isinstance(owner, nn.Module)][-1:]
    for name, layer in model.named_modules():
        if layer in raised and isinstance(layer, nn.GroupNorm | nn.modules.instancenorm._InstanceNorm):
            raise FedloomError(
                f"{type(layer).__name__} '{name}' of the model normalises single values, so that nothing would be "
                "left: use fewer groups or larger maps, or leave it out."
            ) from None


def _form_is_known(task: Task) -> bool:
    """Whether the objective says which outputs it needs: one of this library's, and not one of the user's own."""
    objective = task.objective.of if isinstance(task.objective, Standardised) else task.objective
    return isinstance(objective, OwnLoss) or (isinstance(objective, Loss) and bool(objective.kinds))


def _check_form(task: Task, outputs: Tensor, targets: Tensor) -> None:
    """Refuse outputs whose shape does not suit the targets."""
    classes, wide, several = task.federation.classes, tuple(targets.shape[1:]), targets[0].numel()
    needed, each = {
        "classes": ((classes,), f"{classes} classes need one for each"),
        "tokens": ((*wide, classes), f"{classes} classes at {wide[0] if wide else 0} tokens need one for each"),
        "labels": (wide, f"{several} labels need one for each" if several > 1 else "a label needs one"),
        "number": (wide, f"{several} numbers need one for each" if several > 1 else "a number needs one"),
    }[task.kind]
    fits = outputs.shape == (len(targets), *needed)
    if task.kind == "number":  # a column of numbers is as good as numbers
        fits = outputs.numel() == targets.numel() and (outputs.dim() == 0 or len(outputs) == len(targets))
    if not fits:
        found = f"{outputs.shape[1]} outputs" if outputs.dim() == 2 else f"outputs of shape {tuple(outputs.shape)}"
        samples = "" if outputs.dim() == 2 else f" for {len(targets)} sample{'s' * (len(targets) > 1)}"
        raise FedloomError(
            f"the model {_name(task)} gives {found}{samples}, but {each}: let it return shape "
            f"{(len(targets), *needed)}."
        )


def _check_loss(task: Task, outputs: Tensor, targets: Tensor) -> None:
    """Refuse a loss that does not take the outputs, or does not give a number per sample."""
    name = type(task.objective).__name__
    try:
        values, counts = task.objective.losses(outputs, targets)
        task.objective.scores(outputs, targets)
    except FedloomError:
        raise
    except Exception as error:  # whatever a user's loss raises
        raise FedloomError(
            f"the loss {name} cannot take outputs of shape {tuple(outputs.shape)} and targets of shape "
            f"{tuple(targets.shape)}: {describe_error(error)}."
        ) from error
    for what, tensor in (("values", values), ("counts", counts)):
        if not isinstance(tensor, Tensor) or tensor.shape != targets.shape[:1]:
            raise FedloomError(
                f"the loss {name} gives {what} as {_form(tensor)} for {len(targets)} samples: give one per sample."
            )


def _name(task: Task) -> str:
    return type(task.model).__name__


def _form(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
