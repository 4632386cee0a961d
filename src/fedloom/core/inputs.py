"""Inputs of a model: one tensor, or a dict of named tensors where samples have several columns.

Columns are modalities (accelerometer and gyroscope), or ids with their masks. A federation holds one input column as
``x`` and several as ``x/NAME``. A model over several columns gets a dict with their names, in the columns' order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from fedloom.core.errors import FedloomError

Inputs = Tensor | dict[str, Tensor]
"""One tensor, or tensors by column; the first axis (of a cohort the first two) is the same in all of them."""

PREFIX = "x/"


def map_inputs(function: Callable[[Tensor], Tensor], x: Inputs) -> Inputs:
    """The inputs with a function applied to every tensor."""
    return function(x) if isinstance(x, Tensor) else {name: function(tensor) for name, tensor in x.items()}


def input_columns(columns: Mapping[str, Tensor]) -> Inputs:
    """The input column of a federation, or its input columns by name."""
    return columns["x"] if "x" in columns else named_inputs(columns)


def named_inputs(columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The input columns of a federation that has several, by name."""
    several = {name.removeprefix(PREFIX): column for name, column in columns.items() if name.startswith(PREFIX)}
    if not several:
        raise FedloomError(
            f"the columns are {', '.join(columns) or 'none'}: a federation needs the input column x, or x/NAME for "
            "each of several."
        )
    return several


def input_names(columns: Mapping[str, Tensor]) -> list[str]:
    """The full names of the input columns: ``x``, or ``x/NAME`` for each of several."""
    return ["x"] if "x" in columns else [PREFIX + name for name in named_inputs(columns)]
