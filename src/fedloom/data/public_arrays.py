"""Samples of no client as arrays in memory: the communal or the server set of someone who works in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.federation import Federation
from fedloom.data.public_samples import sample_schema, unlabelled_samples
from fedloom.data.readers.objects import is_frame
from fedloom.data.tables.schema import DataSchema, SampleColumns
from fedloom.data.tables.tables import table_of_frame
from fedloom.data.tables.under_schema import conforming_samples

IN_MEMORY = "arrays in memory"
"""What notes and records call such samples."""


@dataclass(frozen=True)
class PublicArrays:
    """Samples in memory.

    Args:
        x: Inputs as ``fl.from_arrays`` takes them; a frame with the input columns, where the task's data are a table.
        y: The targets; None where nobody knows them.
    """

    x: Any
    y: Any = None

    @property
    def labelled(self) -> bool:
        """Whether the samples have targets."""
        return self.y is not None

    def samples(self, federation: Federation, setting: str) -> SampleColumns:
        """The samples with the federation's input columns and classes; without targets, these are ``IGNORED``.

        Args:
            federation: The data of the task.
            setting: The setting that they are the value of, for errors.
        """
        schema = sample_schema(federation)
        x = _inputs(self.x, schema, setting)
        if self.y is None:
            return unlabelled_samples(x, schema, setting)
        return conforming_samples(x, np.asarray(self.y), schema, setting).columns


def as_public_arrays(value: object, setting: str) -> PublicArrays | None:
    """The samples that a value holds: inputs alone, or a pair of inputs and targets; None where it holds none.

    Args:
        value: What a user gave for a communal or a server set; a share or a table of settings holds no samples.
        setting: What the value is called.
    """
    if isinstance(value, tuple) or _is_listed_pair(value):
        if len(value) != 2 or not _has_samples(value[0]):
            raise FedloomError(f"{setting}: give the inputs x, or a pair (x, y) of inputs and targets.")
        return PublicArrays(*value)
    return PublicArrays(value) if _has_samples(value) else None


def _is_listed_pair(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a list is a pair of inputs and targets, and not two samples: targets have fewer axes."""
    axes = [getattr(one, "ndim", 0) for one in value] if isinstance(value, list) else []
    return len(axes) == 2 and axes[0] > axes[1] > 0


def _has_samples(x: object) -> bool:
    """Whether a value is an array, a frame, a list of rows, or a mapping of these by the names of input columns."""
    if isinstance(x, Mapping):
        return bool(x) and all(_has_samples(column) for column in x.values())
    return is_frame(x) or isinstance(x, list) or getattr(x, "ndim", 0) > 0


def _inputs(x: Any, schema: DataSchema, setting: str) -> Any:
    """The inputs as the task's model gets them: the columns of a frame are encoded as those of the task's table."""
    if is_frame(x):
        plan = schema.input_plan
        if plan is None or not plan.columns_needed:
            raise FedloomError(f"{setting} is a frame, but the task's data are not a table: give an array.")
        table = table_of_frame(x, setting)
        plan.check_columns(list(table.columns), setting)
        return plan.encode(table)
    if schema.plan is not None and schema.features:
        raise FedloomError(
            f"{setting} is an array, but the task's data are a table whose columns are encoded: give a pandas frame "
            "with the same columns."
        )
    if isinstance(x, Mapping) != bool(schema.inputs):
        names = ", ".join(column.name for column in schema.input_columns)
        form = f"a mapping of arrays with the input columns {names}" if schema.inputs else "one array of inputs"
        raise FedloomError(f"{setting}: the task has other inputs: give {form}.")
    return x
