"""The initial model of a deployment, as it lies in a participant's folder: its row, and what is not in the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.task import Task
from fedloom.deploy.protocol.printable import printable_line
from fedloom.registry.nested_keys import select_prefix
from fedloom.runs.folder.plan_constants import CONSTANT


@dataclass(frozen=True, eq=False)
class InitialModel:
    """The weights of an initial model.

    Args:
        row: What trains of it, and its float buffers.
        constants: What it has besides these: frozen parameters, masks and tables, by name.
    """

    row: Tensor
    constants: Mapping[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def of(task: Task) -> InitialModel:
        """The initial model of a task."""
        return InitialModel(task.initial_row(), task.layout.constants(task.model))

    @staticmethod
    def read(tensors: Mapping[str, Tensor]) -> InitialModel:
        """The model that ``tensors`` describes.

        Args:
            tensors: Named tensors, as ``tensors()`` returned them.
        """
        return InitialModel(tensors["row"], select_prefix(tensors, CONSTANT))

    def tensors(self) -> dict[str, Tensor]:
        """The model as named tensors for a file."""
        constants = {CONSTANT + name: tensor.contiguous().clone() for name, tensor in self.constants.items()}
        return {"row": self.row.contiguous(), **constants}

    def fill(self, task: Task) -> None:
        """Copy these weights into a task's model; a ``FedloomError`` if it is another model."""
        own = task.layout.constants(task.model)
        for name in sorted(own.keys() | self.constants.keys()):
            here, there = own.get(name), self.constants.get(name)
            if here is None or there is None or not _same_form(here, there):
                raise FedloomError(
                    f"the frozen tensor '{printable_line(name, 60)}' of task {task.name}'s model is not the one of "
                    "the blueprint: make the deployment again with this version of fedloom and of the model's file."
                )
            here.copy_(there)
        if task.layout.width != len(self.row):
            raise FedloomError(
                f"the model of task {task.name} has {task.layout.width:,} parameters, but the blueprint has "
                f"{len(self.row):,}: make the deployment again with this version of fedloom."
            )
        task.layout.fill(task.model, self.row)


def initial_models(tensors: Mapping[str, Tensor], prefix: str) -> tuple[InitialModel, ...]:
    """The models whose tensors are named ``PREFIX0/...``, ``PREFIX1/...`` and so on.

    Args:
        prefix: What is before the numbers.
    """
    found: list[InitialModel] = []
    while some := select_prefix(tensors, f"{prefix}{len(found)}/"):
        found.append(InitialModel.read(some))
    return tuple(found)


def _same_form(one: Tensor, other: Tensor) -> bool:
    """Whether two constants have one shape and type, and are finite in the same places: where a mask is not."""
    alike = (one.shape, one.dtype) == (other.shape, other.dtype)
    return alike and torch.equal(one.isfinite(), other.isfinite())
