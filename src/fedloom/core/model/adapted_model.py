"""A task's model with modules that a method adds to it: a projection head, a predictor.

``Algorithm.adapt_task`` makes one. Its outputs are the model's own, and so are its body, its head and their initial
weights; each added module is one more part of the row, under its own name. A loss calls it with
``network.apply(name, x)``. What people get out of a run (a trained model, a saved model, a warm start) is the model
alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from fedloom.core.inputs import Inputs
from fedloom.core.layout import Layout
from fedloom.core.network import features
from fedloom.core.task import Task


class AdaptedModel(nn.Module):
    """A model and the modules that a method adds to it.

    Args:
        model: The model, whose outputs are the outputs.
        added: The added modules by name; each is a part of its own.
    """

    def __init__(self, model: nn.Module, added: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.model = model
        for name, module in added.items():
            self.add_module(name, module)
        own: dict[str, list[str]] = {name: [name] for name in added}
        for slot in Layout.of(model).slots:
            if slot.part != "body":
                own.setdefault(slot.part, []).append(f"model.{slot.name}")
        self.parts = own
        if hasattr(model, "stages"):
            self.stages = tuple(f"model.{name}" for name in model.stages)  # type: ignore[union-attr]
        self.added = tuple(added)

    def forward(self, x: Inputs) -> Any:
        """The outputs of the model itself."""
        return self.model(x)

    def features(self, x: Inputs) -> Tensor:
        """What the head of the model sees."""
        return features(self.model, x)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:  # what the model declares: which output counts, inputs that cannot be stacked
            if name == "model":
                raise
            return getattr(self.model, name)


def add_modules(task: Task, build: Callable[[], Mapping[str, nn.Module]]) -> Task:
    """A task whose model has more modules.

    Their initial weights depend on the initial weights of the task's model and on nothing else, so they are the same
    in every process and on every machine.

    Args:
        build: Makes the modules, by name.
    """
    digest = hashlib.blake2b(task.initial_row().numpy().tobytes(), digest_size=8).digest()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int.from_bytes(digest, "little") >> 1)
        return replace(task, model=AdaptedModel(task.model, build()))


def model_columns(task: Task) -> Tensor:
    """A mask over a row's columns that is true for the task's own model and false for added modules."""
    adapted = isinstance(task.model, AdaptedModel)
    own = [torch.full((s.stop - s.start,), not adapted or s.name.startswith("model.")) for s in task.layout.slots]
    return torch.cat(own)


def model_row(task: Task, row: Tensor) -> Tensor:
    """The numbers of the task's own model in a row, without those of added modules.

    Args:
        row: A row of its model.
    """
    return row[model_columns(task)] if isinstance(task.model, AdaptedModel) else row


def without_added_modules(task: Task) -> Task:
    """The task as it was before a method added modules to its model."""
    return replace(task, model=task.model.model) if isinstance(task.model, AdaptedModel) else task
