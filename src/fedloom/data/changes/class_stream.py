"""A class-incremental stream: clients meet the classes in groups, one task after another.

While a task lasts, train parts hold its classes only. Validation and test parts, the global test set, the communal set
and the server set hold those of all tasks so far: who chooses by validation must see what is forgotten. A sample is cut
by its true class, also where its label is hidden; a server set of another data set, and samples whose class nobody
knows, stay whole. The model has outputs for all classes from the beginning, and those of classes that nobody has seen
are masked (``core/model/growing_head.py``): its head grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.core.settings import Count, check_settings
from fedloom.core.targets import IGNORED, target_kind
from fedloom.data.federation import Federation, Ragged


@dataclass(frozen=True)
class ClassStream:
    """The settings of a stream, as a task's configuration holds them (``task.stream``).

    Args:
        tasks: How many tasks the classes are divided into, as evenly as possible.
        rounds: How many rounds each task lasts; the last one lasts to the end of the run.
        order: The order of all classes; by default it is drawn with the task's seed.
        cumulative: Whether clients keep the training samples of earlier tasks (joint training).
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    tasks: Annotated[int, Ge(2)]
    rounds: Count
    order: list[int] | None = None
    cumulative: bool = False

    def __post_init__(self) -> None:
        check_settings(self, "stream")

    def classes(self, classes: int, seed: int) -> list[list[int]]:
        """The classes of each task, in their order.

        Args:
            classes: How many classes the data have.
            seed: The seed of the order, where none is given.
        """
        order = self.order
        if order is None:
            order = numpy_generator(seed, "stream").permutation(classes).tolist()
        if sorted(order) != list(range(classes)):
            raise FedloomError(f"stream: order must name each of the classes 0 to {classes - 1} once.")
        if self.tasks > classes:
            raise FedloomError(f"stream: tasks={self.tasks}, but there are only {classes} classes: use fewer tasks.")
        return [part.tolist() for part in np.array_split(np.array(order), self.tasks)]


def require_stream_table(value: object) -> object:
    """The value of ``task.stream``; one that is not a table is refused: one number cannot say tasks and rounds."""
    if value is None or isinstance(value, Mapping | ClassStream):
        return value
    raise FedloomError(
        f"task.stream={value!r}: give a table of tasks and rounds, for instance {{tasks = 5, rounds = 6}}."
    )


def with_class_stream(
    federation: Federation, stream: ClassStream, seed: int = 0, labels: Tensor | None = None
) -> Federation:
    """A federation whose clients meet the classes task by task.

    Args:
        federation: The federation with all classes.
        stream: The tasks.
        seed: The seed of the order of classes.
        labels: The true class of each sample, where some are left out of the targets.
    """
    y = federation.columns["y"] if labels is None else labels
    if target_kind(y) != "classes":
        raise FedloomError("stream divides classes into tasks, but these targets are not classes: leave it out.")
    if federation.later:
        raise FedloomError("stream: the data change in concept drift already: use only one of them.")
    parts = stream.classes(federation.classes, seed)
    states, seen = list[Federation](), list[int]()
    for number, now in enumerate(parts, start=1):
        seen += now
        trained = torch.tensor(seen if stream.cumulative else now)
        states.append(_state(federation, y, trained, torch.tensor(sorted(seen)), number))
    later = tuple((1 + number * stream.rounds, state) for number, state in enumerate(states) if number)
    sizes = ", ".join(str(len(part)) for part in parts)
    note = f"stream: {stream.tasks} tasks of {sizes} classes, {stream.rounds} rounds each."
    tasks = tuple(tuple(sorted(part)) for part in parts)
    return replace(states[0], later=later, notes=(*federation.notes, note), tasks=tasks)


def _state(federation: Federation, y: Tensor, trained: Tensor, seen: Tensor, number: int) -> Federation:
    """The federation during one task."""

    def only(lists: Ragged, classes: Tensor) -> Ragged:
        stays = torch.isin(y[lists.order], classes)
        return Ragged.by_owner(lists.order[stays].numpy(), lists.owners[stays].numpy(), len(lists))

    def known(positions: Tensor) -> Tensor:
        return positions[torch.isin(y[positions], seen) | (y[positions] == IGNORED)]

    train = only(federation.train, trained)
    if not len(train.order):
        raise FedloomError(f"stream: no client has a training sample of task {number}: use fewer tasks.")
    return replace(
        federation,
        train=train,
        valid=only(federation.valid, seen),
        test=only(federation.test, seen),
        global_test=federation.global_test[torch.isin(y[federation.global_test], seen)],
        communal=known(federation.communal),
        server=federation.server if federation.server_is_foreign else known(federation.server),
        seen=seen,
    )
