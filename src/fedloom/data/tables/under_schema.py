"""A user's file or folder read under a schema: a site's own data, and the checks for new samples to predict.

The order of columns, the numbers of classes and the shape and type of inputs are the schema's, not what the file itself
would suggest. An error names the file and the place in it. Rows are counted from 1, without the header.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.data.federate import Samples
from fedloom.data.folder import read_arrays
from fedloom.data.from_arrays import samples_from_arrays
from fedloom.data.readers.image_folder import read_image_folder
from fedloom.data.tables.column_plan import ColumnPlan
from fedloom.data.tables.schema import DataSchema, InputColumn
from fedloom.data.tables.table_targets import rows_with_targets, target_columns
from fedloom.data.tables.tables import is_table, table_header
from fedloom.data.tables.targets_under_schema import table_targets_under_schema, targets_under_schema

log = logging.getLogger("fedloom")


def read_under_schema(
    path: Path,
    schema: DataSchema,
    target: str,
    client_column: str,
    ignore: Sequence[str],
    group_column: str | None = None,
) -> Samples:
    """The samples of a file or folder, with the schema's columns, classes and types.

    Args:
        path: A table, an NPZ file, or a folder with a sub-folder of images per class.
        schema: What the samples must look like.
        target: The column of a table that holds the label.
        client_column: A column of a table that may name the client; it is left out.
        ignore: Columns of a table that are left out.
        group_column: The column of a table, or the array of an NPZ file, that says which samples belong together.
    """
    if schema.inputs and path.suffix.lower() != ".npz":
        listed = ", ".join(column.name for column in schema.inputs)
        raise FedloomError(f"{path.name}: the task has the input columns {listed}: give an .npz file with these and y.")
    if path.is_dir():
        if len(schema.shape) != 3:
            raise FedloomError(f"{path.name} is a folder of images, but the task needs inputs of shape {schema.shape}.")
        images, labels = read_image_folder(path, schema.shape, schema.labels)
        x = images / np.float32(255) if schema.input_type.is_floating_point else images
        return conforming_samples(x, labels, schema, path.name)
    if is_table(path):
        return _table_samples(path, schema, target, client_column, ignore, group_column)
    if path.suffix.lower() != ".npz":
        raise FedloomError(
            f"{path.name}: '{path.suffix.lower()}' files are not supported: give a .csv, .tsv, .npz or .parquet file, "
            "or images."
        )
    names = [column.name for column in schema.input_columns]
    arrays = read_arrays(path, [*names, "y", *([] if group_column is None else [group_column])], [])
    inputs = {name: arrays[name] for name in names}
    group = None if group_column is None else arrays[group_column]
    given = inputs if schema.inputs else inputs["x"]
    return conforming_samples(given, arrays["y"], schema, path.name, group=group)


def _table_samples(
    path: Path, schema: DataSchema, target: str, client_column: str, ignore: Sequence[str], group_column: str | None
) -> Samples:
    """The rows of a table that have a target, with features as the schema's plan makes them."""
    if len(schema.shape) != 1:
        raise FedloomError(f"{path.name} is a table, but the task needs inputs of shape {schema.shape}.")
    several = (name.strip() for name in target.split(","))
    texts = [name for name in (target, *several, client_column, group_column) if name is not None]
    plan = schema.input_plan or ColumnPlan.of_numbers(
        name for name in table_header(path) if name not in {*texts, *ignore}
    )
    table = plan.read_table(path, texts, ignore)
    names = target_columns(table, target)
    table.require([] if group_column is None else [group_column])
    inputs = [name for name in table.columns if name not in {*names, client_column, group_column}]
    there, left_out = rows_with_targets(table, names)
    if left_out:
        log.warning("%s: %s", path.name, left_out)
    table = table.rows(there)
    plan.check_columns(inputs, path.name)
    y = table_targets_under_schema(table, target, schema)
    group = None if group_column is None else table.texts(group_column, "group")
    return conforming_samples(plan.encode(table), y, schema, path.name, plan.features, group)


def conforming_samples(
    x: Any, y: Any, schema: DataSchema, where: str, features: Sequence[str] = (), group: Any = None
) -> Samples:
    """Arrays as samples that conform to the schema, or an error that names the one that does not.

    ``x`` is an array, or of several input columns a dict of arrays by name.
    """
    targets = targets_under_schema(np.asarray(y), schema, where)
    nothing = np.zeros(len(targets), dtype=np.int64)
    plain = samples_from_arrays(x, nothing, group=group, features=features, where=where)
    columns = {
        column.full_name: conforming_inputs(plain.columns[column.full_name], column, schema, where)
        for column in schema.input_columns
    }
    columns["y"] = torch.from_numpy(targets).to(schema.target_type)
    return Samples(columns, schema.classes, schema.class_names, group=plain.group)


def conforming_inputs(x: Tensor, column: InputColumn, schema: DataSchema, where: str) -> Tensor:
    """Inputs with a column's shape and type; a conversion that would lose information is an error."""
    given, wanted = tuple(x.shape[1:]), column.type
    where = f"{where}, column {column.name}" if schema.inputs else where
    if given != column.shape:
        raise FedloomError(f"{where}: an input has shape {given}, but the task needs {column.shape}.")
    if wanted.is_floating_point != x.is_floating_point() and not (wanted.is_floating_point and x.dtype == torch.int64):
        called = str(x.dtype).removeprefix("torch.")
        raise FedloomError(f"{where}: the inputs are {called}, but the task needs {column.dtype}: convert them.")
    if not wanted.is_floating_point:
        limits = torch.iinfo(wanted)
        low, high = (0, schema.classes - 1) if column.symbols else (limits.min, limits.max)
        outside = ((x < low) | (x > high)).flatten(1).any(1).nonzero().flatten()
        if len(outside):
            raise FedloomError(f"{where}: row {int(outside[0]) + 1} has an input outside {low} to {high}.")
    return x.to(wanted)
