"""Runs of which only sums leave the clients: what would need single replies is refused before any work."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fedloom.aggregation.mean import Mean
from fedloom.core.adversary import Adversary
from fedloom.core.errors import FedloomError
from fedloom.secure.sum_step import SumStep
from fedloom.selection.poisson import Poisson

if TYPE_CHECKING:
    from fedloom.config.schema import RunConfig


RARE = 1e-3
"""The chance that a run may have of a round that is too small for a sum."""


def check_sums(config: RunConfig, clients: int) -> None:
    """Raise a ``FedloomError`` for parts of a run that a step which lets only sums leave cannot serve.

    Args:
        config: The config of the run.
        clients: How many clients may take part.
    """
    steps = [step for step in config.channel if isinstance(step, SumStep)]
    if not steps:
        return
    name = type(steps[0]).__name__.lower()
    if not isinstance(config.channel[-1], SumStep) or len(steps) > 1:
        raise FedloomError(f"nothing can be done to rows that {name} has hidden: make it the last step of the channel.")
    quiet = [type(step).__name__.lower() for step in config.channel if step.may_be_silent]
    if quiet:
        raise FedloomError(f"{name} adds the updates of all clients, and {quiet[0]} withholds some: leave out one.")
    if config.aggregation != Mean():
        rule = type(config.aggregation).__name__.lower()
        raise FedloomError(
            f"{name} hides single updates, and {rule} needs them: leave out one of the two; mean takes sums."
        )
    if config.weight_by == "steps":
        raise FedloomError(
            f"{name} adds what clients have weighted themselves, by their samples or all alike: set weight_by to "
            "samples or uniform."
        )
    _check_draws(config, name, max(steps[0].least, getattr(steps[0], "least_clients", 0)), clients)
    adversary = config.adversary
    if adversary is not None:
        kind = type(adversary)
        if kind.collude is not Adversary.collude or kind.look_at_replies is not Adversary.look_at_replies:
            raise FedloomError(
                f"{name} hides single updates, and the adversary {kind.__name__.lower()} looks at them: leave out one."
            )


def _check_draws(config: RunConfig, name: str, least: int, clients: int) -> None:
    """Refuse draws of which some may be too small for a sum."""
    if not isinstance(config.selection, Poisson):
        return
    rate = config.selection.rate
    small = sum(math.comb(clients, number) * rate**number * (1 - rate) ** (clients - number) for number in range(least))
    if config.rounds * small > RARE:
        raise FedloomError(
            f"{name} needs {least} clients in a round, and selection poisson draws fewer of {clients} with a "
            f"probability of {small:.2g}: raise selection.rate, or draw a fixed number (selection random)."
        )
