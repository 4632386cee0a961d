"""Targets as a user has them, and what is made of them: classes, numbers, several labels, or a class per token.

The kind is chosen from the values unless the user names it; ``note`` says what was chosen and how to say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedloom.core.errors import FedloomError, unknown
from fedloom.core.settings import check_value
from fedloom.core.targets import IGNORED, TARGET_KINDS, TargetKind, Units, target_kind
from fedloom.core.task import FederationView
from fedloom.data.tables.labels import LABEL_MARKS, is_missing, number_labels
from fedloom.data.tables.table_columns import EmptyLabels

MOST_COUNTED_CLASSES = 20
"""Whole numbers with more different values than this are a number and not classes, unless the user says so."""
MOST_LABELS = 1000
SEPARATORS = LABEL_MARKS[:2]
"""What separates the labels of a cell, if the kind is chosen from the values."""


@dataclass(frozen=True)
class Targets:
    """Targets as a federation holds them, and what they mean."""

    kind: TargetKind
    y: np.ndarray
    classes: int
    """The number of classes or labels; where targets are numbers, how many a sample has."""
    names: Sequence[str] = ()
    note: str = ""


def check_kind(kind: str | None) -> None:
    """Raise an error for a kind of target that does not exist."""
    if kind is not None and kind not in TARGET_KINDS:
        raise unknown("kind of target", kind, TARGET_KINDS)


def read_targets(
    values: np.ndarray,
    kind: str | None,
    classes: int | None,
    where: str,
    called: str = "y",
    empty_labels: EmptyLabels = "missing",
) -> Targets:
    """Targets from an array of numbers or texts, whose first axis is the sample.

    Args:
        values: The values; a missing one is an error.
        kind: The kind of target; None to choose it from the values.
        classes: The number of classes, where the values do not show it.
        where: What an error calls the data.
        called: What a note calls the targets, for instance their column.
        empty_labels: What a missing one says; ``none`` makes the targets lists of labels.
    """
    check_kind(kind)
    check_value("empty_labels", empty_labels, EmptyLabels)
    if empty_labels == "none":
        return _maybe_empty_labels(values, kind, where, called)
    _refuse_missing(values, where)
    if values.ndim == 2:
        return _rows_of_targets(values, kind, classes, where, called)
    if values.ndim != 1:
        raise FedloomError(f"{where}: the targets have shape {values.shape}: give one value, or one row, per sample.")
    if kind == "tokens":
        raise FedloomError(f"{where}: {called} has one value per sample, but kind tokens needs a row of them for each.")
    if kind == "labels" or (kind is None and classes is None and _separator(values)):
        return _cells_of_labels(values, kind, where, called)
    numbers = _numbers(values)
    if kind == "number":
        if numbers is None:
            first = next(row for row, value in enumerate(values) if _numbers(np.asarray([value])) is None)
            raise FedloomError(f"{where}: '{str(values[first])[:40]}' in row {first + 1} of {called} is not a number.")
        return _number_targets(numbers, where, called, "as asked")
    if kind is None and classes is None and numbers is not None and (why := _looks_measured(values, numbers)):
        return _number_targets(numbers, where, called, why)
    if classes is None and values.dtype.kind in "USO" and len(set(values.tolist())) == 1:
        raise FedloomError(f"{where}: {called} is '{str(values[0])[:40]}' in every row: there is nothing to learn.")
    y, names, count = number_labels(values, classes, where)
    shown = few_names(names or [str(number) for number in range(count)])
    note = f"{called} has {count} classes ({shown}){_other(kind, 'number', numbers)}"
    return Targets("classes", y, count, names, note)


def refuse_empty_labels(kind: str | None, columns: int, where: str) -> None:
    """Raise an error if ``empty_labels = "none"`` is said of targets that are no lists of labels.

    Args:
        kind: The kind of target that is asked for.
        columns: How many numbers or names a target has.
        where: What an error calls the data.
    """
    if kind not in (None, "labels") or columns != 1:
        found = f"kind is {kind}" if columns == 1 else f"here a target has {columns} columns"
        raise FedloomError(
            f"{where}: empty_labels=none is for lists of labels such as fever|cough, but {found}: leave it out."
        )


def _maybe_empty_labels(values: np.ndarray, kind: str | None, where: str, called: str) -> Targets:
    """Lists of labels, of which a missing one is a list without any."""
    refuse_empty_labels(kind, values.shape[1] if values.ndim > 1 else 1, where)
    empty = is_missing(values)
    targets = _cells_of_labels(np.where(empty, "", values), "labels", where, called)
    return replace(targets, note=f"{targets.note}; {rows_without_labels(int(empty.sum()))}")


def rows_without_labels(count: int) -> str:
    """How many rows have no label, as a main clause."""
    return f"{count:,} row{' has' if count == 1 else 's have'} none of them"


def _refuse_missing(values: np.ndarray, where: str) -> None:
    missing = is_missing(values)
    if missing.any():
        raise FedloomError(
            f"{where}: the label of row {int(np.flatnonzero(missing.reshape(len(values), -1).any(1))[0]) + 1} is "
            "missing: fill it in or leave the row out."
        )


def _numbers(values: np.ndarray) -> np.ndarray | None:
    """The values as numbers; None if they are not all finite numbers."""
    if values.dtype.kind not in "fiubUSO":
        return None
    try:
        numbers = values.astype(np.float64)
    except (ValueError, TypeError):
        return None
    return numbers if bool(np.isfinite(numbers).all()) else None


def number_values(values: np.ndarray, where: str) -> np.ndarray:
    """Values as float32 numbers; one that is not a finite number is an error."""
    found = np.empty(len(values), dtype=np.float32)
    for row, value in enumerate(values.tolist()):
        try:
            found[row] = float(value)
        except (TypeError, ValueError):
            raise FedloomError(f"{where}: the target '{str(value)[:40]}' of row {row + 1} is not a number.") from None
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        raise FedloomError(f"{where}: the target of row {wrong[0] + 1} is not a finite number.")
    return found


def is_measured_column(texts: np.ndarray) -> bool:
    """Whether all cells of a column are numbers that are measured values and not classes."""
    numbers = _numbers(texts)
    return numbers is not None and bool(_looks_measured(texts, numbers))


def _looks_measured(values: np.ndarray, numbers: np.ndarray) -> str:
    """Why numbers are measured values and not classes; empty if they are classes. Whole numbers of an array are."""
    if not bool((numbers == np.floor(numbers)).all()):
        return "its values are not whole numbers"
    if values.dtype.kind in "iub":
        return ""
    distinct = len(np.unique(numbers))
    return f"it has {distinct:,} different numbers" if distinct > MOST_COUNTED_CLASSES else ""


def _number_targets(numbers: np.ndarray, where: str, called: str, why: str) -> Targets:
    if len(np.unique(numbers)) == 1:
        raise FedloomError(f"{where}: {called} is {numbers[0]:g} in every row: there is nothing to learn.")
    whole = bool((numbers == np.floor(numbers)).all())
    other = "; --kind classes takes each value as a class" if whole and why != "as asked" else ""
    note = f"{called} is a number ({why}), from {numbers.min():g} to {numbers.max():g}{other}"
    return Targets("number", numbers.astype(np.float32), 1, (), note)


def _separator(values: np.ndarray) -> str:
    """What separates labels in cells of text; empty where cells are not lists of labels that recur."""
    if values.dtype.kind not in "USO":
        return ""
    cells = [str(value) for value in values]
    for mark in SEPARATORS:
        if any(mark in cell for cell in cells):
            labels = {label for cell in cells for label in _split(cell, mark)}
            return mark if len(labels) < len(set(cells)) else ""
    return ""


def _split(cell: str, mark: str) -> list[str]:
    return [label.strip() for label in cell.split(mark) if label.strip()]


def split_labels(cells: Iterable[object]) -> list[list[str]]:
    """The labels of each cell, which are separated by the first of ``|``, ``;`` and the comma that some cell has."""
    texts = [str(cell) for cell in cells]
    mark = next((mark for mark in LABEL_MARKS if any(mark in text for text in texts)), LABEL_MARKS[0])
    return [_split(text, mark) for text in texts]


def _cells_of_labels(values: np.ndarray, kind: str | None, where: str, called: str) -> Targets:
    parts = split_labels(values)
    names = sorted({label for row in parts for label in row})
    if not names:
        raise FedloomError(f"{where}: {called} has no label in any row: there is nothing to learn.")
    if len(names) > MOST_LABELS:
        raise FedloomError(f"{where}: {called} has {len(names):,} different labels: use at most {MOST_LABELS:,}.")
    place = {name: number for number, name in enumerate(names)}
    y = np.zeros((len(parts), len(names)), dtype=np.uint8)
    for row, labels in enumerate(parts):
        y[row, [place[label] for label in labels]] = 1
    note = f"{called} has {len(names)} labels ({few_names(names)}){_other(kind, 'classes', '')}"
    return Targets("labels", y, len(names), names, note)


def _rows_of_targets(values: np.ndarray, kind: str | None, classes: int | None, where: str, called: str) -> Targets:
    """Targets with several entries per sample: 0 and 1 for labels, class numbers for tokens, or several numbers."""
    binary = values.dtype.kind in "fiub" and bool(np.isin(values, (0, 1)).all())
    if kind in (None, "labels") and binary:
        return Targets(
            "labels",
            values.astype(np.uint8),
            values.shape[1],
            (),
            f"{called} has {values.shape[1]} columns of 0 and 1: a label each{_other(kind, 'tokens', '')}",
        )
    if kind == "number" or (kind is None and classes is None and values.dtype.kind == "f" and values.shape[1] > 1):
        return rows_of_numbers(values, (), where, called)
    if kind in ("classes", "labels"):
        one = "0 or 1 for each label" if kind == "labels" else "one value per sample"
        raise FedloomError(f"{where}: {called} has shape {values.shape}, but kind {kind} needs {one}.")
    if values.dtype.kind not in "iu":
        raise FedloomError(
            f"{where}: {called} has shape {values.shape} and is {values.dtype}: give class numbers for the tokens of "
            "sequences, 0 and 1 for labels, or floats for several numbers."
        )
    counted = values[values != IGNORED]
    if not len(counted) or counted.min() < 0:
        raise FedloomError(f"{where}: the classes of tokens are numbered from 0, and {IGNORED} marks padding.")
    count = max(2, int(counted.max()) + 1) if classes is None else classes
    if counted.max() >= count:
        raise FedloomError(f"{where}: a token has class {counted.max()}, but there are {count}: number them from 0.")
    note = f"{called} has a class per token, {count} in all{_other(kind, 'labels', None)}"
    return Targets("tokens", values.astype(np.int64), count, (), note)


def rows_of_numbers(values: np.ndarray, names: Sequence[str], where: str, called: str) -> Targets:
    """Targets with several numbers per sample.

    Args:
        values: Samples × numbers.
        names: What the numbers are called; empty if they have no names.
        where: What an error calls the data.
        called: What a note calls the targets.
    """
    numbers = _numbers(values)
    if numbers is None:
        raise FedloomError(f"{where}: {called} has a value that is not a finite number: correct it.")
    for place in range(numbers.shape[1]):
        if len(np.unique(numbers[:, place])) == 1:
            which = f"column '{names[place]}'" if names else f"column {place} of {called}"
            raise FedloomError(f"{where}: {which} is {numbers[0, place]:g} in every row: leave it out.")
    ranges = [f"{low:g} to {high:g}" for low, high in zip(numbers.min(0), numbers.max(0), strict=True)]
    shown = [f"{name}: {one}" for name, one in zip(names, ranges, strict=True)] if names else ranges
    note = f"{called} are {numbers.shape[1]} numbers ({few_names(shown)}); each is learnt in its own units"
    return Targets("number", numbers.astype(np.float32), numbers.shape[1], list(names), note)


def _other(kind: str | None, alternative: str, possible: object) -> str:
    """How to choose another kind, where the kind was not asked for and another is possible."""
    return "" if kind is not None or possible is None else f"; --kind {alternative} takes it otherwise"


def few_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def target_units(federation: FederationView) -> Units | None:
    """Mean and standard deviation of the training targets (1 where they do not vary); None if they are not numbers.

    Where a sample has several numbers, each has its own.

    A model learns them standardised. They are three sums per client, so a real federation can compute them without
    revealing a sample.
    """
    y = federation.columns["y"]
    if target_kind(y) != "number":
        return None
    values = y[federation.train.order].double()
    if values.dim() == 2:
        spreads = values.std(0, correction=0)
        return tuple(values.mean(0).tolist()), tuple(torch.where(spreads > 0, spreads, 1.0).tolist())
    spread = float(values.std(correction=0))
    return float(values.mean()), spread if spread > 0 else 1.0
