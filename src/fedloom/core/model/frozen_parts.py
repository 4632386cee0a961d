"""Parameters of a model that keep their initial weights: ``task.frozen``.

They are constants of the task, as those of a module with ``requires_grad=False`` are: they are in no row, so no message
holds them and no average changes them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from torch import nn

from fedloom.core.errors import FedloomError
from fedloom.core.layout import matches

MOST_NAMES = 12
"""How many names an error lists."""


def freeze(model: nn.Module, patterns: Sequence[str]) -> nn.Module:
    """A copy of a model in which parameters are frozen.

    Args:
        patterns: Patterns over the names of parameters (``body.*``), or names of modules.
    """
    training = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    chosen = match_names(training, patterns, "task.frozen", "parameter")
    if len(chosen) == len(training):
        raise FedloomError(
            f"task.frozen: {', '.join(patterns)} freezes all parameters of {type(model).__name__}, so there is nothing "
            "to train: leave some out."
        )
    return _frozen_copy(model, chosen)


def match_names(names: Sequence[str], patterns: Sequence[str], where: str, what: str) -> list[str]:
    """The names that some pattern matches; a pattern that matches none is refused.

    Args:
        where: The setting that has the patterns, for the error.
        what: What an error calls the thing that has such a name.
    """
    for pattern in patterns:
        if not any(matches(name, [pattern]) for name in names):
            raise FedloomError(f"{where}: the pattern '{pattern}' matches no {what}: the model has {listed(names)}.")
    return [name for name in names if matches(name, patterns)]


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _frozen_copy(model: nn.Module, names: Sequence[str]) -> nn.Module:
    """A copy of a model that remembers which of its parameters were frozen here, and not by its author."""
    made = copy.deepcopy(model)
    for name in names:
        made.get_parameter(name).requires_grad_(False)
    made.frozen_parameters = tuple(names)  # type: ignore[assignment]
    return made


def unfreeze(model: nn.Module) -> nn.Module:
    """A copy of a model in which what ``freeze`` froze trains again."""
    made = copy.deepcopy(model)
    for name in vars(made).pop("frozen_parameters", ()):
        made.get_parameter(name).requires_grad_(True)
    return made
