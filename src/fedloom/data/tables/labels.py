"""Converts labels, which are whole numbers or names, to class numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError


def is_missing(values: np.ndarray) -> np.ndarray:
    """Which values are missing: empty text, None, NaN."""
    found: Any = np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        found = np.isnan(values)
    elif values.dtype.kind in "US":
        found = np.char.strip(values) == ""
    elif values.dtype.kind == "O":
        found = [v is None or v != v or (isinstance(v, str) and not v.strip()) for v in values.flat]
    return np.asarray(found, dtype=bool).reshape(values.shape)


LABEL_MARKS = ("|", ";", ",")
"""What may separate the labels of a cell, the likeliest first."""


def are_label_lists(values: Any) -> bool:
    """Whether the targets of samples are lists of names; None is a missing one, and some list is not empty."""
    if not isinstance(values, list | tuple) and not (isinstance(values, np.ndarray) and values.dtype.hasobject):
        return False
    lists = [value for value in values if value is not None]
    return all(map(is_label_list, lists)) and any(map(len, lists))


def column_of_lists(lists: Sequence[Any]) -> np.ndarray:
    """Lists as the objects of a column, also where all have the same length.

    Args:
        lists: A list per sample, or None.
    """
    found = np.empty(len(lists), dtype=object)
    for place, one in enumerate(lists):
        found[place] = one
    return found


def is_label_list(value: Any) -> bool:
    """Whether a value is a list of names, such as ``["fever", "cough"]``; it may be empty."""
    several = isinstance(value, list | tuple | set | frozenset) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return several and all(isinstance(name, str) for name in value)


def label_cell(names: Iterable[str], where: str) -> str:
    """A list of names as a table has it: ``fever|cough``; an empty one is empty.

    Args:
        names: Those of one sample; a set is sorted.
        where: What an error calls the data.
    """
    known = sorted(names) if isinstance(names, set | frozenset) else list(names)
    for name in known:
        if LABEL_MARKS[0] in name:
            raise FedloomError(
                f"{where}: the label '{name[:40]}' has a '{LABEL_MARKS[0]}', which separates labels: rename it."
            )
    return LABEL_MARKS[0].join(known)


def label_cells(lists: Iterable[Iterable[str] | None], where: str) -> np.ndarray:
    """Lists of names as the cells of a table's column; None stays a missing one.

    Args:
        lists: The names of each sample.
        where: What an error calls the data.
    """
    return np.array([None if names is None else label_cell(names, where) for names in lists], dtype=object)


def number_labels(labels: np.ndarray, classes: int | None, where: str) -> tuple[np.ndarray, list[str], int]:
    """Class numbers, class names (empty when the labels are class numbers already) and the number of classes.

    Text that can be read as numbers counts as numbers; other text is names, numbered in sorted order. Numbers must be
    whole. They are class numbers if the number of classes is given, or if the lowest is 0; otherwise each
    different number is the name of a class: labels 1 to 3 are three classes.
    """
    if labels.dtype.kind in "USO":
        text = np.asarray(labels, dtype=str)
        try:
            labels = text.astype(np.float64)
        except ValueError:
            names, numbers = np.unique(text, return_inverse=True)
            count = _count(len(names) - 1, len(text), classes, where)
            return numbers.astype(np.int64), [str(name) for name in names], count
    if labels.dtype.kind not in "fiub":
        raise FedloomError(f"{where}: labels are {labels.dtype}: give whole numbers or names.")
    whole = np.isfinite(labels) & (labels == np.floor(labels))
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        raise FedloomError(
            f"{where}: the label of row {row + 1} is {labels[row]:g}: classes must be whole numbers or names; for "
            "measured values use kind number."
        )
    if classes is None and labels.min() != 0:
        values, numbers = np.unique(labels, return_inverse=True)
        count = _count(len(values) - 1, len(labels), None, where)
        return numbers.astype(np.int64), [str(int(value)) for value in values], count
    wrong = labels < 0 if classes is None else (labels < 0) | (labels >= classes)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        known = "from 0 up" if classes is None else f"from 0 to {classes - 1} ({classes} classes)"
        raise FedloomError(f"{where}: the label {labels[row]:g} of row {row + 1} is out of range: labels run {known}.")
    return labels.astype(np.int64), [], _count(int(labels.max()), len(labels), classes, where)


def _count(largest: int, samples: int, classes: int | None, where: str) -> int:
    if classes is not None:
        if classes <= largest:
            raise FedloomError(f"{where}: classes={classes}, but the labels name {largest + 1}: give at least as many.")
        return classes
    if largest + 1 > max(1000, samples):
        raise FedloomError(
            f"{where}: the largest label is {largest} over {samples} samples, so these look like identifiers, not "
            "classes: number them from 0, state the number of classes, or use kind number for measured values."
        )
    return max(2, largest + 1)
