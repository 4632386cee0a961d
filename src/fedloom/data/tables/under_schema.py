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
from fedloom.data.input_plan import InputPlan
from fedloom.data.leak_groups import join_groups, number_copies, number_groups
from fedloom.data.media.file_table import require_columns
from fedloom.data.tables.column_plan import ColumnPlan
from fedloom.data.tables.schema import DataSchema, InputColumn
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.table_targets import rows_with_targets, target_columns
from fedloom.data.tables.tables import is_table, table_files, table_header
from fedloom.data.tables.targets_under_schema import (
    folder_classes,
    table_targets_under_schema,
    targets_under_schema,
)
from fedloom.data.targets import rows_without_labels

log = logging.getLogger("fedloom")


def read_under_schema(path: Path, schema: DataSchema, columns: TableColumns, skip_unreadable: bool = False) -> Samples:
    """The samples of a file or folder, with the schema's columns, classes and types.

    Args:
        path: A table or a folder with its pieces, an NPZ file, or a folder with a sub-folder of images or sounds per
            class.
        schema: What the samples must look like.
        columns: The columns of a table, or for ``group`` the array of an NPZ file, that are not inputs.
        skip_unreadable: Whether images and sounds that cannot be read are left out, instead of an error.
    """
    plan = schema.input_plan
    by_plan = plan is not None and plan.reads_npz
    if path.suffix.lower() == ".npz" and not by_plan:
        names, group = [column.name for column in schema.input_columns], columns.group
        arrays = read_arrays(path, [*names, "y", *([] if group is None else [group])], [])
        inputs = {name: arrays[name] for name in names}
        given = inputs if schema.inputs else inputs["x"]
        together = None if group is None else arrays[group]
        return conforming_samples(given, arrays["y"], schema, path.name, group=together)
    if schema.inputs:
        listed = ", ".join(column.name for column in schema.inputs)
        raise FedloomError(f"{path.name}: the task has the input columns {listed}: give an .npz file with these and y.")
    if not path.is_dir() and not is_table(path) and not by_plan:
        raise FedloomError(
            f"{path.name}: '{path.suffix.lower()}' files are not supported: give a .csv, .tsv, .npz or .parquet file, "
            "or a folder of images or sounds."
        )
    if plan is None:
        if not table_files(path) or len(schema.shape) != 1:
            called = "a folder" if path.is_dir() else "a table"
            raise FedloomError(
                f"{path.name} is {called}, but the task needs inputs of shape {schema.shape}: give an .npz."
            )
        others = {*columns.names, *columns.ignore}
        plan = ColumnPlan.of_numbers(name for name in table_header(path) if name not in others)
    return _planned_samples(path, schema, plan, columns, skip_unreadable)


def _planned_samples(
    path: Path, schema: DataSchema, plan: InputPlan, columns: TableColumns, skip_unreadable: bool
) -> Samples:
    """The rows, or files, that have a target, with inputs as a plan makes them."""
    of_files = bool(plan.endings) and path.is_dir()
    if plan.endings and not of_files:
        require_columns(path, columns, columns.client)  # a site is one client
    table = plan.read_table(path, columns)
    names = columns.targets[:1] if of_files else target_columns(table, columns.target)
    table.require([] if columns.group is None else [columns.group])
    inputs = [name for name in table.columns if name not in {*names, columns.client, columns.group}]
    there, left_out = rows_with_targets(table, names, columns.empty_labels)
    table = table.rows(there)
    plan.check_columns(inputs, path.name)
    unreadable = ""
    if skip_unreadable:
        table, unreadable = plan.without_unreadable(table)
    for note in filter(None, (left_out, unreadable)):
        log.warning("%s: %s", path.name, note)
    if of_files and schema.target_kind == "classes":
        y = folder_classes(table.columns[names[0]], schema, path.name)
    else:
        y = table_targets_under_schema(table, columns.target, schema)
    if columns.empty_labels == "none" and (bare := int((~y.any(1)).sum())):
        log.warning("%s: of the labels, %s", path.name, rows_without_labels(bare))
    group = None if columns.group is None else number_groups(table.texts(columns.group, "group"), len(table), path.name)
    x = plan.encode(table)
    if plan.endings and len(np.unique(copies := number_copies(x))) < len(x):  # no copy is trained on and tested on
        group = copies if group is None else join_groups(group, copies)
    return conforming_samples(fractions(x, schema), y, schema, path.name, plan.features, group)


def fractions(x: np.ndarray, schema: DataSchema) -> np.ndarray:
    """Bytes as fractions of 255, where the schema's inputs are numbers with decimals; other inputs as they are."""
    return x / np.float32(255) if x.dtype == np.uint8 and schema.input_type.is_floating_point else x


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
