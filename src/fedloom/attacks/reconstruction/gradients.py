"""Gradients and local training of a task's model, as functions of its row that can be differentiated once more.

An attacker who guesses samples computes what they would have made a client send, and moves its guess towards what the
client did send: so everything here keeps its graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from fedloom.core.local_work import LocalWork
from fedloom.core.model.model_output import chosen_output
from fedloom.core.task import Task

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class LocalSteps:
    """The local training that an attacker repeats with its guesses: plain SGD on batches in a fixed order.

    Args:
        lr: The learning rate.
        count: How many steps.
        batch_size: Samples per step; 0 for all of them.
    """

    lr: float = 1.0
    count: int = 1
    batch_size: int = 0

    @staticmethod
    def of(work: LocalWork, samples: int, round_number: int = 1, rounds: int = 1) -> LocalSteps:
        """The steps of a client with so many samples.

        Args:
            work: The run's local work; momentum, Adam and weight decay are not repeated.
            samples: How many training samples the client has.
            round_number: The round, which the learning rate may depend on.
            rounds: How many rounds the run has.
        """
        batch_size = 0 if work.samples_per_step >= samples else work.samples_per_step
        return LocalSteps(work.lr_at(round_number, rounds), work.steps_for(samples), batch_size)


def inputs_of(task: Task, positions: Tensor) -> Tensor:
    """Prepared inputs of a task that has one column of them.

    Args:
        positions: Where its samples are.
    """
    return cast(Tensor, task.inputs(positions))  # with several columns, an attack is refused before it starts


def outputs_of(task: Task, tensors: Tensors, inputs: Tensor) -> Tensor:
    """What a model with given tensors makes of some inputs.

    Args:
        task: The task, whose model it is.
        tensors: The model's tensors by name.
        inputs: Prepared inputs.
    """
    task.model.eval()  # an attacker does not know what dropout dropped
    return chosen_output(task.model, torch.func.functional_call(task.model, dict(tensors), (inputs,)))


def loss_of(outputs: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy; labels are classes, or a probability for each of them.

    Args:
        outputs: The model's outputs.
        labels: The targets.
    """
    return F.cross_entropy(outputs, labels)


def gradient(task: Task, row: Tensor, inputs: Tensor, labels: Tensor, keep_graph: bool = False) -> Tensor:
    """The gradient of the mean loss in all columns that train, as one vector.

    Args:
        task: The task, whose model it is.
        row: The model.
        inputs: Prepared inputs.
        labels: Classes, or a probability for each of them.
        keep_graph: Whether it can be differentiated in inputs and labels.
    """
    tensors = trained_tensors(task, row)
    return flat(_gradients(task, tensors, row, inputs, labels, keep_graph))


def sample_gradients(task: Task, row: Tensor, positions: Tensor) -> Tensor:
    """The gradient of each sample's loss, the task's own, in all columns that train: samples×columns.

    Args:
        task: The task, whose model it is.
        row: The model.
        positions: Where its samples are.
    """
    everything = task.layout.views(row.detach())

    def loss(tensors: dict[str, Tensor], sample: Tensor, label: Tensor) -> Tensor:
        values, _ = task.objective.losses(outputs_of(task, {**everything, **tensors}, sample[None]), label[None])
        return values.sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    tensors = {slot.name: everything[slot.name] for slot in task.layout.trainable}
    found: dict[str, Tensor] = each(tensors, inputs_of(task, positions), task.targets(positions))
    return torch.cat([found[name].flatten(1) for name in tensors], 1)


def local_change(task: Task, row: Tensor, inputs: Tensor, labels: Tensor, steps: LocalSteps) -> Tensor:
    """How local training on some samples changes the columns that train; it can be differentiated in the inputs.

    Args:
        task: The task, whose model it is.
        row: The model that the client gets.
        inputs: Prepared inputs.
        labels: Classes, or a probability for each of them.
        steps: The local training.
    """
    start = trained_tensors(task, row)
    now = start
    size = steps.batch_size or len(inputs)
    batches = [slice(first, first + size) for first in range(0, len(inputs), size)]
    for step in range(steps.count):
        batch = batches[step % len(batches)]
        found = _gradients(task, now, row, inputs[batch], labels[batch], keep_graph=True)
        now = {name: tensor - steps.lr * found[name] for name, tensor in now.items()}
    return flat({name: now[name] - start[name] for name in start})


def trained_tensors(task: Task, row: Tensor) -> dict[str, Tensor]:
    """The tensors of a model that train, ready to be differentiated.

    Args:
        task: The task, whose model it is.
        row: The model.
    """
    views, names = task.layout.views(row), [slot.name for slot in task.layout.trainable]
    return {name: views[name].detach().requires_grad_() for name in names}


def flat(tensors: Tensors) -> Tensor:
    """Tensors as one vector, in their order.

    Args:
        tensors: Tensors by name.
    """
    return torch.cat([tensor.reshape(-1) for tensor in tensors.values()])


def _gradients(
    task: Task, tensors: Tensors, row: Tensor, inputs: Tensor, labels: Tensor, keep_graph: bool
) -> dict[str, Tensor]:
    everything = {**task.layout.views(row), **tensors}
    loss = loss_of(outputs_of(task, everything, inputs), labels)
    # What a method adds to a model has no part in this loss: its gradient is zero.
    found = torch.autograd.grad(loss, list(tensors.values()), create_graph=keep_graph, materialize_grads=True)
    return dict(zip(tensors, found, strict=True))
