"""Targets under a schema: its classes and labels by name or number, numbers, and tags of words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.tables.labels import number_labels
from fedloom.data.tables.schema import DataSchema
from fedloom.data.tables.table_targets import encode_tags, table_targets, target_columns
from fedloom.data.tables.tables import Table, as_texts
from fedloom.data.targets import number_values, split_labels

CALLED = {"labels": "labels", "number": "targets"}
LISTED = 12
"""How many classes an error lists."""


def targets_under_schema(targets: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    """Targets of an array with the schema's shape and classes; one that does not fit is an error.

    Args:
        targets: The targets, none of them missing.
        schema: What the targets must be.
        where: What an error calls the data.
    """
    kind = schema.target_kind
    if targets.ndim == 0 or targets.shape[1:] != schema.target_shape:
        asked = f"targets of shape {schema.target_shape}" if schema.target_shape else "one label per sample"
        raise FedloomError(f"{where}: y has shape {targets.shape}, but the task needs {asked}.")
    if not len(targets):
        raise FedloomError(f"{where} has no samples: give at least two.")
    if kind == "number":
        columns = targets.T if targets.ndim == 2 else [targets]
        return np.stack([number_values(column, where) for column in columns], -1).reshape(targets.shape)
    if kind == "labels":
        wrong = ~np.isin(targets, (0, 1)).all(1) if targets.dtype.kind in "fiub" else np.ones(len(targets), dtype=bool)
        if wrong.any():
            raise FedloomError(
                f"{where}: row {int(np.flatnonzero(wrong)[0]) + 1} of y must be 0 or 1 for each of {schema.classes} "
                "labels."
            )
        return targets.astype(np.uint8)
    return _sequences(targets, schema, where) if kind == "tokens" else class_numbers(targets, schema, where)


def table_targets_under_schema(table: Table, target: str, schema: DataSchema) -> np.ndarray:
    """Targets of a table's rows, each of which has one, with the schema's classes, labels or tags.

    Args:
        target: The column of the target, or several columns of 0 and 1 between commas.
        schema: What the targets must be.
    """
    kind, where, names = schema.target_kind, table.where, target_columns(table, target)
    texts = as_texts(table.columns[names[0]])
    if kind == "labels" and len(names) > 1:
        if set(names) != set(schema.class_names):
            raise FedloomError(
                f"{where}: the target columns {', '.join(names)} are not those of the task: {class_list(schema)}."
            )
        return table_targets(table, list(schema.class_names), "labels", None).y
    if kind == "labels":
        return _labels(texts, schema, where)
    if kind == "tokens":
        return _tags(texts, schema, where)
    if kind == "number" and schema.target_shape:
        return _several_numbers(table, names, schema)
    return number_values(table.values(names[0]), where) if kind == "number" else class_numbers(texts, schema, where)


def _several_numbers(table: Table, names: Sequence[str], schema: DataSchema) -> np.ndarray:
    """The numbers of several columns, in the order of the schema's."""
    wanted = list(schema.class_names) or list(names)
    if set(names) != set(wanted) or len(names) != schema.classes:
        raise FedloomError(
            f"{table.where}: the target columns {', '.join(names)} are not the {schema.classes} numbers of the task"
            f"{f': {class_list(schema)}' if schema.class_names else ''}."
        )
    return np.stack([number_values(table.values(name), f"{table.where}, column '{name}'") for name in wanted], 1)


def folder_classes(folders: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    """The schema's class numbers of files, from the names of the folders that they lie in.

    Args:
        folders: The name of each file's folder.
        schema: What the classes are.
        where: What an error calls the data.
    """
    place = {name: number for number, name in enumerate(schema.labels)}
    strange = sorted({str(name) for name in folders if name not in place})
    if strange:
        shown = ", ".join(schema.labels[:LISTED]) + (" …" if schema.classes > LISTED else "")
        raise FedloomError(f"the sub-folder '{strange[0]}' of {where} is not a class of the task ({shown}).")
    return np.array([place[name] for name in folders], dtype=np.int64)


def class_numbers(labels: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    """The schema's class numbers of labels, which are its class names or numbers from 0; classes may be missing.

    Where the names of classes are numbers, as 1, 2 and 3, labels are names too.
    """
    number = {name: place for place, name in enumerate(schema.class_names)}
    plain = list(number) == [str(place) for place in range(schema.classes)]
    named_by_number = bool(number) and not plain and all(_reads_as_number(name) for name in number)
    if labels.dtype.kind not in "USO" and not named_by_number:
        return number_labels(labels, schema.classes, where)[0]
    words = [_word(label) for label in labels.tolist()]
    if all(word in number for word in words):
        return np.array([number[word] for word in words], dtype=np.int64)
    if not named_by_number and all(_reads_as_number(word) for word in words):
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
    """The classes or labels of a schema, for an error message."""
    names, what = schema.class_names, CALLED.get(schema.target_kind, "classes")
    if not names:
        return f"its {schema.classes} {what} are numbered 0 to {schema.classes - 1}"
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"its {what} are {', '.join(names[:LISTED])}{more}"


def _word(label: object) -> str:
    """A label as a text; whole numbers without decimals."""
    text = str(label).strip()
    if _reads_as_number(text) and float(text) == round(float(text)):
        return f"{float(text):.0f}"
    return text


def _reads_as_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def _labels(texts: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    """Cells like ``fever|cough`` as 0 and 1 for each label of the schema."""
    place = {name: number for number, name in enumerate(schema.labels)}
    y = np.zeros((len(texts), schema.classes), dtype=np.uint8)
    for row, labels in enumerate(split_labels(texts)):
        for label in labels:
            if label not in place:
                raise FedloomError(
                    f"{where}: the label '{label[:40]}' of row {row + 1} is not one of the task: {class_list(schema)}."
                )
            y[row, place[label]] = 1
    return y


def _tags(texts: np.ndarray, schema: DataSchema, where: str) -> np.ndarray:
    rows: Sequence[Sequence[str]] = [str(text).split() for text in texts]
    length = schema.target_shape[0]
    for row, tags in enumerate(rows, start=1):
        strange = [tag for tag in tags if tag not in schema.labels]
        if strange:
            raise FedloomError(
                f"{where}: the tag '{strange[0][:40]}' of row {row} is not a class of the task: {class_list(schema)}."
            )
        if len(tags) > length:
            raise FedloomError(f"{where}: row {row} has {len(tags)} tags, but the task has {length} at most.")
    return encode_tags(rows, schema.labels, length)


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
