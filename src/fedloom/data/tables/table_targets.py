"""The targets of a table: one column, several of 0 and 1 or of numbers, or tags for the words of another column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.core.targets import IGNORED
from fedloom.data.tables.column_plan import reads_as_number
from fedloom.data.tables.table_columns import USUAL_COLUMNS, EmptyLabels
from fedloom.data.tables.tables import LONGEST_NAME, Table, as_texts, name_list
from fedloom.data.targets import (
    Targets,
    check_kind,
    few_names,
    is_measured_column,
    number_values,
    read_targets,
    refuse_empty_labels,
    rows_of_numbers,
)


def target_columns(table: Table, target: str | Sequence[str]) -> list[str]:
    """The columns of the target: one, or several, as a list or between commas.

    Args:
        target: The column or columns.
    """
    if isinstance(target, str):
        names = [target] if target in table.columns else [name.strip() for name in target.split(",") if name.strip()]
    else:
        names = list(target)
    if names == [USUAL_COLUMNS.target] and names[0] not in table.columns:
        others = [name for name in table.columns if name != USUAL_COLUMNS.client]
        raise FedloomError(
            f"{table.where} has no column '{names[0]}': say which one is to be predicted with --target COLUMN "
            f"(target=...): {name_list(others)}."
        )
    table.require(names or [str(target)])
    return names


def rows_with_targets(
    table: Table, names: Sequence[str], empty_labels: EmptyLabels = "missing"
) -> tuple[np.ndarray, str]:
    """Whether each row has a target, and a note on those that have none.

    Args:
        names: The columns of the target.
        empty_labels: What an empty cell says.
    """
    there = np.ones(len(table), dtype=bool)
    for name in names:
        there &= np.array([bool(text) for text in as_texts(table.columns[name])])
    if there.all():
        return there, ""
    if not there.any():
        raise FedloomError(f"{table.where}: column '{names[0]}' is empty in every row: there is nothing to learn.")
    if empty_labels == "none":
        refuse_empty_labels(None, len(names), table.where)
        return np.ones(len(table), dtype=bool), ""
    gone = int((~there).sum())
    return there, f"{gone:,} row{'s' if gone > 1 else ''} without a target {'are' if gone > 1 else 'is'} left out"


def table_targets(
    table: Table,
    names: Sequence[str],
    kind: str | None,
    classes: int | None,
    empty_labels: EmptyLabels = "missing",
) -> Targets:
    """The targets of a table's rows, each of which has one.

    Args:
        names: The columns of the target.
        kind: The kind of target; None to choose it from the values.
        classes: The number of classes, where the values do not show it.
        empty_labels: What an empty cell says.
    """
    if empty_labels == "none":
        refuse_empty_labels(kind, len(names), table.where)
        kind = "labels"
    if len(names) > 1:
        return _several_columns(table, names, kind)
    called = f"column '{names[0]}'"
    if kind == "tokens":
        return _tags(table, names[0])
    texts = as_texts(table.columns[names[0]]) if kind == "labels" else table.values(names[0])
    for row, text in enumerate(texts, start=1):
        if len(text) > LONGEST_NAME:
            raise FedloomError(
                f"{table.where}: {called}, row {row}: {len(text)} characters are too long for a name: fill it in or "
                "leave the row out."
            )
    return read_targets(texts, kind, classes, table.where, called, empty_labels)


def _several_columns(table: Table, names: Sequence[str], kind: str | None) -> Targets:
    """Columns of 0 and 1 as labels; columns of which each is measured, or that are asked for as such, as numbers."""
    check_kind(kind)
    if kind not in (None, "labels", "number"):
        raise FedloomError(f"kind {kind} needs one target, but {', '.join(names)} are {len(names)}: name one column.")
    if kind == "number" or (kind is None and all(is_measured_column(table.values(name)) for name in names)):
        columns = [_number_cells(table, name) for name in names]
        return rows_of_numbers(np.stack(columns, 1), names, table.where, f"the columns {', '.join(names)}")
    if kind is None:
        _refuse_stray_words(table, names)
    return _columns_of_labels(table, names)


def _refuse_stray_words(table: Table, names: Sequence[str]) -> None:
    """Raise an error for a word among measured values: it would make the column look like labels."""
    for name in names:
        texts = table.values(name)
        numbers = np.array([reads_as_number(text) for text in texts])
        if len(texts) > numbers.sum() > len(texts) / 2 and is_measured_column(texts[numbers]):
            _number_cells(table, name)


def _number_cells(table: Table, name: str) -> np.ndarray:
    return number_values(table.values(name), f"{table.where}: column '{name}'")


def _columns_of_labels(table: Table, names: Sequence[str]) -> Targets:
    columns = []
    for name in names:
        texts = as_texts(table.columns[name])
        strange = [row for row, text in enumerate(texts, start=1) if text not in ("0", "1")]
        if strange:
            raise FedloomError(
                f"{table.where}: column '{name}', row {strange[0]} is '{texts[strange[0] - 1][:40]}': several target "
                "columns are labels, of 0 and 1 each, or with --kind number (kind='number') numbers."
            )
        columns.append(np.array([text == "1" for text in texts]))
    note = f"the columns {', '.join(names)} are {len(names)} labels"
    return Targets("labels", np.stack(columns, 1).astype(np.uint8), len(names), list(names), note)


def _tags(table: Table, name: str) -> Targets:
    rows = [str(cell).split() for cell in as_texts(table.columns[name])]
    names = sorted({tag for row in rows for tag in row})
    if len(names) < 2:
        raise FedloomError(f"{table.where}: column '{name}' has {len(names)} tags: there is nothing to learn.")
    y = encode_tags(rows, names, max(map(len, rows)))
    note = f"column '{name}' has a tag per word, {len(names)} in all ({few_names(names)})"
    return Targets("tokens", y, len(names), names, note)


def encode_tags(rows: Sequence[Sequence[str]], names: Sequence[str], length: int) -> np.ndarray:
    """The class numbers of rows of tags, padded to a length; -1 for a tag that is not among the names.

    Args:
        rows: The tags of each row.
        names: The names of the classes.
        length: How many tags a row has, padding included.
    """
    place = {tag: number for number, tag in enumerate(names)}
    y = np.full((len(rows), length), IGNORED, dtype=np.int64)
    for number, tags in enumerate(rows):
        y[number, : len(tags)] = [place.get(tag, -1) for tag in tags]
    return y


def tagged_column(table: Table, inputs: Sequence[str], target: str) -> str:
    """The column of the words that a column of tags is about: as many words as tags in every row.

    Args:
        inputs: The columns that may be it.
        target: The column of tags.
    """
    lengths = [len(str(cell).split()) for cell in as_texts(table.columns[target])]
    fitting, first = [], ""
    for name in inputs:
        found = [len(str(cell).split()) for cell in as_texts(table.columns[name])]
        if found == lengths:
            fitting.append(name)
        elif not first:
            row = next(row for row, (one, other) in enumerate(zip(found, lengths, strict=True)) if one != other)
            first = f"'{name}' has {found[row]} words and '{target}' {lengths[row]} tags in row {row + 1}"
    if len(fitting) != 1:
        why = f"{first}: give one word per tag" if not fitting else f"{', '.join(fitting)} all do: ignore the others"
        raise FedloomError(f"{table.where}: kind tokens needs a column with a word per tag of '{target}', but {why}.")
    return fitting[0]
