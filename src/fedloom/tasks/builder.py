"""What a kind of task declares to the rest of the library: one record of settings, one protocol.

A modality (samples in columns, action flows, graphs) is a ``TaskBuilder``. It turns ``TaskSettings`` into a ``Task``
and fills in the defaults of its settings. To add a modality, write a builder and enter its tasks in
``tasks/registry.py``; nothing else in the library asks what kind of task it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.local_work import LocalWork
from fedloom.core.task import Task
from fedloom.data.concept_drift import Drift
from fedloom.data.partition.base import Partitioner
from fedloom.data.withheld_class import Withhold


@dataclass(frozen=True)
class TaskSettings:
    """The settings of a task, as a config's section ``[task]`` and the arguments of ``fl.task`` give them."""

    name: str
    clients: int | None = None
    partition: Partitioner | str | Mapping[str, Any] | None = None
    model: str | nn.Module | None = None
    """A model's name or a module; None is the task's default model."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    test_share: float = 0.2
    valid_share: float = 0.0
    communal_per_class: int = 0
    """Test samples of each class that are set aside for everyone to see."""
    augment: bool = False
    withhold: Withhold | Mapping[str, Any] | None = None
    """A class that some clients lack in their training data."""
    drift: Drift | Mapping[str, Any] | None = None
    """The rounds in which clients' data change."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings that only this kind of task has."""
    path: str | None = None
    """The user's file or folder, for a task that reads one."""
    target: str = "label"
    """The column of a user's table that holds the label."""
    client_column: str = "client"
    """The column of a user's table that says whose sample it is."""
    ignore: Sequence[str] = ()
    """Columns of a user's table that are left out."""
    seed: int = 0

    def refuse(self, names: Sequence[str], why: str) -> None:
        """Raise an error if one of these settings is given: the task does not use it.

        Args:
            names: Fields of this record.
            why: A main clause without full stop that says why the task has no such setting.
        """
        for name in names:
            if getattr(self, name) not in (None, False, 0, (), [], {}):
                raise FedloomError(f"task {self.name}: {why}; leave out {name}.")


class TaskBuilder(Protocol):
    """Builds the tasks of one modality. A named task is a builder together with its constructor arguments."""

    @property
    def modality(self) -> str:
        """What a sample is: an entry of ``columns``, a step in one of the ``flows``, or a node of a ``graph``."""
        ...

    @property
    def local(self) -> LocalWork:
        """Local work that is known to train the task's default model."""
        ...

    def describe(self) -> str:
        """One line about the task, its model, and whether its data are there."""
        ...

    def complete(self, settings: TaskSettings) -> TaskSettings:
        """The settings with every default written out and with absolute paths."""
        ...

    def build(self, settings: TaskSettings) -> Task:
        """The task. ``Task.made_from`` has the settings that build it again, unless its model is a user's module."""
        ...
