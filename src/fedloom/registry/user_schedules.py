"""A learning-rate schedule of a user's own: ``my_file.py:rate``, a function that gives a factor of the rate.

It takes any of ``round`` (counted from 1), ``rounds``, ``step`` (of the round, counted from 0) and ``steps`` by these
names: what a schedule depends on is seen in its arguments.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedloom.core.errors import FedloomError
from fedloom.core.schedules import find_own_schedules_by
from fedloom.registry.user_classes import user_callable
from fedloom.registry.user_errors import describe_error

ARGUMENTS = ("round", "rounds", "step", "steps")
_FOUND: dict[str, UserSchedule] = {}


@dataclass(frozen=True)
class UserSchedule:
    """A function of a user's, and which of the arguments it takes."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]

    def __call__(self, **where: int) -> float:
        """The factor of the learning rate."""
        given = {name: where[name] for name in self.arguments}
        shown = ", ".join(f"{name}={value}" for name, value in given.items())
        try:
            factor = float(self.function(**given))
        except Exception as error:  # whatever the user's function raises
            raise FedloomError(f"schedule '{self.name}' failed for {shown} ({describe_error(error)}).") from error
        if not (math.isfinite(factor) and factor >= 0):
            raise FedloomError(
                f"schedule '{self.name}' gave {factor} for {shown}: return a finite number of at least 0."
            )
        return factor


def load_schedule(name: str) -> UserSchedule:
    """A user's schedule as it is in its file now; a function with other arguments is refused.

    Args:
        name: ``file.py:function`` or ``package.module:function``.
    """
    function = user_callable(name, "schedule")
    try:
        takes = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        takes = {}
    wrong = [own for own, one in takes.items() if own not in ARGUMENTS and one.default is one.empty]
    arguments = tuple(own for own in ARGUMENTS if own in takes)
    if wrong or not arguments:
        found = f"it takes {', '.join(takes)}" if takes else "it takes none of them"
        raise FedloomError(f"schedule '{name}': give it any of the arguments {', '.join(ARGUMENTS)}; {found}.")
    _FOUND[name] = UserSchedule(name, function, arguments)
    return _FOUND[name]


def find_schedule(name: str) -> UserSchedule:
    """A user's schedule; the one that was loaded last, which stays the same while a run goes on."""
    return _FOUND.get(name) or load_schedule(name)


find_own_schedules_by(find_schedule)
