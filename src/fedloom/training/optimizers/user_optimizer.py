"""A class of ``torch.optim``'s kind as the local optimiser: ``torch.optim:Adamax``, ``my_file.py:Mine``.

It trains the parameters of one client's module, so only the execution ``loop`` has it. As all local optimisers it is
new in every round, and knows nothing of the library: the method's pull is in the gradients that it finds, and they are
clipped already.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.registry.user_classes import user_class
from fedloom.registry.user_errors import describe_error
from fedloom.training.gradients import clip_


def optimizer_class(name: str) -> type[torch.optim.Optimizer]:
    """The class that ``local.optimizer`` names."""
    return user_class(name, torch.optim.Optimizer, "optimizer")


class UserOptimizer:
    """A user's optimiser for the parameters of one client, with the face of ``Optimizer``.

    Args:
        kind: Its class.
        work: The local work.
        lr: The learning rate.
        parameters: What it changes.
    """

    def __init__(
        self, kind: type[torch.optim.Optimizer], work: LocalWork, lr: float, parameters: list[nn.Parameter]
    ) -> None:
        self.work, self.lr, self.parameters = work, lr, parameters
        self.theirs = kind(parameters, lr=lr, **work.optimizer_options)  # type: ignore[call-arg]

    @property
    def values(self) -> list[Tensor]:
        """The parameters as stacks of one client; the user's code may have given them other memory."""
        return [parameter.detach().unsqueeze(0) for parameter in self.parameters]

    def step(self, gradients: list[Tensor]) -> None:
        """One step down the gradients."""
        if self.work.clip is not None:
            gradients = [g.clone() for g in gradients]
            clip_(gradients, self.work.clip)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient[0]
        for group in self.theirs.param_groups:
            group["lr"] = self.lr
        self.theirs.step()
        self.theirs.zero_grad()


def try_optimizer(work: LocalWork, task: Task) -> None:
    """Refuse a user's optimiser that cannot make two steps of the task's model.

    Args:
        task: The task of the run, as its clients train on it.
    """
    if not work.has_own_optimizer:
        return
    kind, model = optimizer_class(work.optimizer), copy.deepcopy(task.model)
    trained = {slot.name for slot in task.layout.trainable}
    parameters = [one for name, one in model.named_parameters() if name in trained]
    try:
        with torch.random.fork_rng(devices=[]):
            own = UserOptimizer(kind, work, work.lr, parameters)
            for _ in range(2):
                own.step([torch.full_like(one, 1e-3).unsqueeze(0) for one in parameters])
    except Exception as error:  # whatever the class raises: it may want other arguments, or a closure
        raise FedloomError(
            f"local.optimizer {work.optimizer} cannot make a step ({describe_error(error)}): it must take parameters, "
            "lr and local.optimizer_options, and step() without arguments; see the options, or choose another."
        ) from error
