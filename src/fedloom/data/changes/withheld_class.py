"""A withheld class: some clients have no training data of it, and meet it only when they predict.

It is taken out of their training and validation parts; their test part keeps it. The recall of that class
(``client_model/own_test/withheld_recall``) then shows whether a client can predict what only others trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.seeds import numpy_generator
from fedloom.data.federation import Federation, Ragged


@dataclass(frozen=True)
class Withhold:
    """The settings of ``with_withheld_class``, as a task's configuration holds them (``task.withhold``)."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    label: int
    clients: list[int] | int


def with_withheld_class(federation: Federation, label: int, clients: Sequence[int] | int, seed: int = 0) -> Federation:
    """A federation in which some clients have no sample of a class in their train and validation parts.

    Args:
        federation: The federation with all classes.
        label: The number of the class.
        clients: The clients' numbers, or how many to draw among those that have the class in their train and test
            parts and some other class to train on.
        seed: The seed of the draw.
    """
    y = federation.columns["y"]
    if y.dim() > 1 or y.is_floating_point():
        raise FedloomError("withhold removes a class, but these data have no classes: leave it out.")
    if not 0 <= label < federation.classes:
        raise FedloomError(f"withhold label={label}: the data have the classes 0 to {federation.classes - 1}.")
    if federation.later or federation.withheld is not None:
        raise FedloomError("withhold: only one class can be withheld, once, and before concept drift.")
    affected = _draw_clients(federation, label, clients, seed) if isinstance(clients, int) else sorted(clients)
    if not affected or len(set(affected)) < len(affected):
        raise FedloomError(f"withhold clients={clients}: give at least one client, and each only once.")
    for client in affected:
        reason = _obstacle(federation, label, client)
        if reason is not None:
            raise FedloomError(f"withhold label={label} from client {client}: {reason}; give other clients.")

    def without(part: Ragged) -> Ragged:
        return Ragged.of([part[k][y[part[k]] != label] if k in affected else part[k] for k in range(len(part))])

    train, valid = without(federation.train), without(federation.valid)
    return replace(federation, train=train, valid=valid, withheld=(label, tuple(affected)))


def _draw_clients(federation: Federation, label: int, number: int, seed: int) -> list[int]:
    able = [k for k in range(federation.clients) if _obstacle(federation, label, k) is None]
    if not 1 <= number <= len(able):
        raise FedloomError(
            f"withhold clients={number}: {len(able)} clients have class {label} in both train and test parts, and "
            "other classes to train on; give a number from 1 to that."
        )
    drawn = numpy_generator(seed, "withhold").choice(np.array(able), number, replace=False)
    return sorted(int(client) for client in drawn)


def _obstacle(federation: Federation, label: int, client: int) -> str | None:
    """Why a class cannot be withheld from a client; None if it can."""
    if not 0 <= client < federation.clients:
        return f"clients are numbered 0 to {federation.clients - 1}"
    y = federation.columns["y"]

    def of_class(part: Tensor) -> int:
        return int((y[part] == label).sum())

    train, test = federation.train[client], federation.test[client]
    if not of_class(train):
        return "it has no training sample of that class"
    if not of_class(test):
        return "it has no test sample of that class, so its recall could not be measured"
    if of_class(train) == len(train):
        return "it would have no training sample left"
    return None
