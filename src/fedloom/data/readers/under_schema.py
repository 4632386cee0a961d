"""A user's file or folder read under a schema: a site's own data, and the checks for new samples to predict.

The order of columns, the numbers of classes and the shape and type of inputs are the schema's, not what the file itself
would suggest. An error names the file and the place in it. Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.federate import Samples
from fedloom.data.folder import read_arrays
from fedloom.data.read import samples_from_arrays
from fedloom.data.readers.image_folder import read_image_folder
from fedloom.data.readers.labels import number_labels
from fedloom.data.readers.tables import TABLE_ENDINGS, read_table
from fedloom.data.schema import DataSchema, InputColumn

LISTED = 12
"""How many classes an error lists."""


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
    match path.suffix.lower():
        case suffix if suffix in TABLE_ENDINGS:
            if len(schema.shape) != 1:
                raise FedloomError(f"{path.name} is a table, but the task needs inputs of shape {schema.shape}.")
            table = read_table(path, target, client_column, ignore, schema.features, group_column)
            return conforming_samples(table.x, table.y, schema, path.name, table.features, table.group)
        case ".npz":
            names = [column.name for column in schema.input_columns]
            arrays = read_arrays(path, [*names, "y", *([] if group_column is None else [group_column])], [])
            inputs = {name: arrays[name] for name in names}
            group = None if group_column is None else arrays[group_column]
            given = inputs if schema.inputs else inputs["x"]
            return conforming_samples(given, arrays["y"], schema, path.name, group=group)
        case other:
            raise FedloomError(
                f"{path.name}: '{other}' files are not supported: give a .csv, .tsv, .npz or .parquet file, or images."
            )


def conforming_samples(
    x: Any, y: Any, schema: DataSchema, where: str, features: Sequence[str] = (), group: Any = None
) -> Samples:
    """Arrays as samples that conform to the schema, or an error that names the one that does not.

    ``x`` is an array, or of several input columns a dict of arrays by name.
    """
    targets = np.asarray(y)
    if targets.ndim == 0 or targets.shape[1:] != schema.target_shape:
        asked = f"targets of shape {schema.target_shape}" if schema.target_shape else "one label per sample"
        raise FedloomError(f"{where}: y has shape {targets.shape}, but the task needs {asked}.")
    nothing = np.zeros(len(targets), dtype=np.int64)
    plain = samples_from_arrays(x, nothing, group=group, features=features, where=where)
    numbers = _sequences(targets, schema, where) if schema.target_shape else class_numbers(targets, schema, where)
    columns = {
        column.full_name: conforming_inputs(plain.columns[column.full_name], column, schema, where)
        for column in schema.input_columns
    }
    columns["y"] = torch.from_numpy(numbers).to(schema.target_type)
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


def class_numbers(labels: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    """The schema's class numbers of labels, which are its class names or numbers from 0; classes may be missing."""
    if labels.dtype.kind not in "USO":
        return number_labels(labels, schema.classes, where)[0]
    words = [str(label).strip() for label in labels]
    number = {name: place for place, name in enumerate(schema.class_names)}
    if all(word in number for word in words):
        return np.array([number[word] for word in words], dtype=np.int64)
    if all(_reads_as_number(word) for word in words):
        return number_labels(np.array(words), schema.classes, where)[0]
    row, word = next(
        (row, word)
        for row, word in enumerate(words, 1)
        if not (word in number or (not number and _reads_as_number(word)))
    )
    raise FedloomError(
        f"{where}: the label '{word[:40]}' of row {row} is not a class of the task: {class_list(schema)}."
    )


def class_list(schema: DataSchema) -> str:
    """The classes of a schema, for an error message."""
    names = schema.class_names
    if not names:
        return f"its {schema.classes} classes are numbered 0 to {schema.classes - 1}"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"its classes are {', '.join(names[:LISTED])}{more}"


def _reads_as_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _sequences(targets: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    """Targets that are sequences of class numbers; -100 marks positions that do not count."""
    if targets.dtype.kind not in "iu":
        raise FedloomError(f"{where}: y is {targets.dtype}, but the task needs whole numbers.")
    wrong = ((targets < 0) | (targets >= schema.classes)) & (targets != IGNORED)
    if wrong.any():
        row, *place = (int(index) for index in np.argwhere(wrong)[0])
        raise FedloomError(
            f"{where}: the target {targets[(row, *place)]} of row {row + 1} is not a class of the task: "
            f"{class_list(schema)}."
        )
    return targets.astype(np.int64)
