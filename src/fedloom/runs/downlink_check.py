"""Runs whose models go down in fewer bits: what cannot bear that is refused before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedloom.core.algorithm import Algorithm
from fedloom.core.declarations import Model
from fedloom.core.errors import FedloomError
from fedloom.secure.sum_step import SumStep

if TYPE_CHECKING:
    from fedloom.config.schema import RunConfig


def check_downlink(config: RunConfig, algorithm: Algorithm) -> None:
    """Raise a ``FedloomError`` for a method that sends no model down, and for what differences cannot be used with.

    Args:
        config: The config of the run.
        algorithm: The method of the run.
    """
    if config.downlink is None:
        return
    name = config.method.get("name", "the method")
    if not (algorithm.communicates and any(isinstance(one, Model) for one in algorithm.receives.values())):
        raise FedloomError(f"{name} sends no model down to its clients: leave out downlink.")
    if not config.downlink.delta:
        return
    if config.federated_dropout is not None:
        raise FedloomError(
            "downlink.delta sends differences to a whole model, and with federated_dropout clients get parts of it: "
            "leave out one of the two."
        )
    for step in config.channel:
        if isinstance(step, SumStep) or step.may_be_silent:
            why = "all clients start from the same bytes" if isinstance(step, SumStep) else "all clients answer"
            raise FedloomError(
                f"{type(step).__name__.lower()} needs that {why}, and downlink.delta does not promise it: leave out "
                "one of the two."
            )
    if any(isinstance(one, Model) and one.each for one in algorithm.receives.values()):
        raise FedloomError(
            f"downlink.delta is for a model that all clients get, and those of {name} get one each: leave it out."
        )
    if type(algorithm).groups is not Algorithm.groups:
        raise FedloomError(f"clients of {name} hand models to each other: leave out downlink.delta.")
