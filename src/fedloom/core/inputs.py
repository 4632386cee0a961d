"""Inputs of a model: one tensor, or a dict of named tensors where samples have several columns.

Columns are modalities (accelerometer and gyroscope), or ids with their masks. A federation holds one input column as
``x`` and several as ``x/NAME``. A model over several columns gets a dict with their names, in the columns' order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fedloom.core.errors import FedloomError

Inputs = Tensor | dict[str, Tensor]
"""One tensor, or tensors by column; the first axis (of a cohort the first two) is the same in all of them."""

Transform = Callable[[Tensor], Tensor]
"""Turns the raw inputs of one column into the model's."""
Augment = Callable[[Tensor, torch.Generator], Tensor]
"""``augment(x, generator) -> x'`` changes the prepared inputs of one client's samples at random."""
Shape = tuple[int, ...]
PREFIX = "x/"


def map_inputs(function: Callable[[Tensor], Tensor], x: Inputs) -> Inputs:
    """The inputs with a function applied to every tensor."""
    return function(x) if isinstance(x, Tensor) else {name: function(tensor) for name, tensor in x.items()}


def transform_of(prepare: Transform | Mapping[str, Transform] | None, column: str) -> Transform | None:
    """The transform of one column: of a mapping its own, otherwise the one of all columns."""
    return prepare.get(column) if isinstance(prepare, Mapping) else prepare


def prepare_inputs(x: Inputs, prepare: Transform | Mapping[str, Transform] | None, joined: bool) -> Inputs:
    """Raw inputs as the model takes them; ``joined`` makes one tensor of several columns, along axis 1."""
    if isinstance(x, Tensor):
        return prepare(x) if callable(prepare) else x
    transforms = {name: transform_of(prepare, name) for name in x}
    ready = {name: column if (t := transforms[name]) is None else t(column) for name, column in x.items()}
    return torch.cat(list(ready.values()), dim=1) if joined else ready


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


def input_shapes(columns: Mapping[str, Tensor]) -> Shape | dict[str, Shape]:
    """The shape of one sample's input, or of its input in each of several columns."""
    inputs = input_columns(columns)
    if isinstance(inputs, Tensor):
        return tuple(inputs.shape[1:])
    return {name: tuple(column.shape[1:]) for name, column in inputs.items()}
