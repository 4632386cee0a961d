"""Class inversion: the input of which a model is surest that it is of a class.

``x' = argmin log(1 / p_c(x)) + smoothness * TV(x)`` from a blank input, inside the range of values. Fredrikson, Jha and
Ristenpart, Model Inversion Attacks that Exploit Confidence Information and Basic Countermeasures, CCS 2015,
https://doi.org/10.1145/2810103.2813677, who descend on ``1 - p_c``; its logarithm does not vanish where a model is sure
of something else. It shows what a class has in common: of a class that is one person, as in their example, that person;
of digits, something like their mean; and no sample of anybody.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedloom.attacks.reconstruction.gradients import inputs_of, outputs_of
from fedloom.attacks.reconstruction.inverting import total_variation
from fedloom.core.errors import FedloomError
from fedloom.core.task import Task


def invert_class(
    task: Task,
    row: Tensor,
    target: int,
    *,
    low: float,
    high: float,
    smoothness: float = 0.1,
    iterations: int = 300,
    step_size: float = 0.05,
) -> Tensor:
    """The image of which the model is surest that it is of a class.

    Args:
        row: The model that an attacker has.
        target: The class.
        low: The lowest value of a pixel, after the task's normalisation.
        high: The highest one.
        smoothness: How much smooth images are preferred.
        iterations: Steps of Adam.
        step_size: The step size of Adam.
    """
    if not task.classifies or task.has_named_inputs:
        raise FedloomError(f"class inversion seeks an input of a class, and task {task.name} has none: use classes.")
    if not 0 <= target < task.federation.classes:
        raise FedloomError(f"class inversion: target={target}: there are {task.federation.classes} classes.")
    shape = inputs_of(task, task.sample).shape
    image = torch.full(shape, low).requires_grad_()
    optimizer, label = torch.optim.Adam([image], lr=step_size), torch.tensor([target])
    tensors = task.layout.views(row)
    for _ in range(iterations):
        loss = torch.nn.functional.cross_entropy(outputs_of(task, tensors, image), label)
        if image.dim() == 4:
            loss = loss + smoothness * total_variation(image)
        (image.grad,) = torch.autograd.grad(loss, [image])
        optimizer.step()
        with torch.no_grad():
            image.clamp_(low, high)
    return image.detach()[0]
