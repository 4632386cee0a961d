"""Fits the plan of a table's columns: what each column is, and the medians and levels of the training samples.

The kind of a column follows from all of its cells, but medians and levels are those of the training samples. What
would be read wrongly is refused: one word among numbers, a date among words, a number with a unit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.tables.column_plan import ColumnPlan, PlannedColumn, day_of, reads_as_number, times_of
from fedloom.data.tables.dates import check_form, date_form, is_date
from fedloom.data.tables.tables import Table, as_texts, name_list

MOST_LEVELS = 50
"""A category has at most this many levels, the most frequent ones; the others are unknown levels."""
MOST_WORDS = 10_000
"""So many words of a column of words are known, the most frequent ones."""
WAYS = "write them as 2026-01-31, or say how with dates (task.dates)"
FEW_LEVELS = 20
"""Cells of numbers and words with at most this many different values are a category, and otherwise an error."""
INDEX = re.compile(r"|unnamed: ?\d+|index|id", re.IGNORECASE)
MARKED_NUMBER = re.compile(
    r"[-+]?[€$£]? ?\d{1,3}([.,' ]\d{3})+([.,]\d+)? ?[%€$£]?|[-+]?[€$£] ?\d[\d.,]*|[-+]?\d[\d.,]* ?[%€$£]"
)
"""A number with a unit, or with separators between thousands."""
IDENTIFIER = re.compile(r".*([_ .-]id|[a-z]I[dD])", re.DOTALL)


def fit_columns(
    table: Table, names: Sequence[str], train: np.ndarray, dates: Mapping[str, str] | None = None
) -> ColumnPlan:
    """The plan of some columns of a table.

    Args:
        names: The columns that are inputs.
        train: The rows that are training samples; medians and levels are theirs.
        dates: How the dates of columns are written, where the user has said it.
    """
    forms = {} if dates is None else dates
    for name, form in forms.items():
        if name not in names:
            raise FedloomError(f"dates: {table.where} has no input column '{name}': it has {name_list(names)}.")
        check_form(form, name)
    others = len(names) > 1
    columns = (
        _fit_dates(table, name, train, forms[name])
        if name in forms
        else _fit(table, name, train, may_count=others and place == 0)
        for place, name in enumerate(names)
    )
    plan = ColumnPlan(columns=tuple(columns))
    if not plan.inputs:
        raise FedloomError(f"{table.where} has no column to learn from: {'; '.join(plan.lines) or 'add the inputs'}.")
    return plan


def _fit_dates(table: Table, name: str, train: np.ndarray, form: str) -> PlannedColumn:
    """The plan of a column of dates whose form the user has said."""
    where = f"{table.where}: column '{name}'"
    return _fit_values(name, "date", times_of(table.columns[name], form, where), train, form)


def _fit(table: Table, name: str, train: np.ndarray, may_count: bool) -> PlannedColumn:
    """The plan of one column; the first of several may be a plain count of the rows, whatever its name is."""
    cells, where = table.columns[name], f"{table.where}: column '{name}'"
    if cells.dtype.kind == "f" and name not in table.names:
        infinite = np.flatnonzero(np.isinf(cells))
        if len(infinite):
            raise FedloomError(f"{where}, row {infinite[0] + 1} is infinite: fill it in or leave the row out.")
        return _fit_numbers(name, cells, train, may_count)
    if cells.dtype.kind == "M":
        return _fit_values(name, "date", times_of(cells, "", where), train)
    texts = as_texts(cells)
    known = [text for text in texts if text]
    form = date_form(known)
    if form == "unclear":
        return _omitted_column(name, f"its dates may be day/month or month/day: {WAYS}")
    if form == "mixed":
        return _omitted_column(name, f"its dates are written in several ways: {WAYS}")
    if form:
        return _fit_values(name, "date", times_of(cells, form, where), train, form)
    if name not in table.names:
        _refuse_stray_words(texts, where)
    return _fit_category(name, texts, train).model_copy(update={"numeric": cells.dtype.kind == "f"})


def _fit_numbers(name: str, cells: np.ndarray, train: np.ndarray, may_count: bool) -> PlannedColumn:
    known = cells[~np.isnan(cells)]
    whole = bool(len(known)) and bool((known == np.floor(known)).all())
    if whole and len(known) == len(cells) > 2:
        if may_count and cells[0] in (0, 1) and bool((np.diff(cells) == 1).all()):
            return _omitted_column(name, "it counts the rows")
        if INDEX.fullmatch(name) and len(np.unique(cells)) == len(cells):
            return _omitted_column(name, "it has another number in every row")
    if whole and (INDEX.fullmatch(name) or IDENTIFIER.fullmatch(name)):
        return _fit_category(name, as_texts(cells), train).model_copy(update={"numeric": True})
    return _fit_values(name, "number", cells, train)


def _fit_values(
    name: str, role: Literal["number", "date"], values: np.ndarray, train: np.ndarray, form: str = ""
) -> PlannedColumn:
    """A column of numbers or of times in seconds."""
    own = values[train]
    missing, known = np.isnan(own), own[~np.isnan(own)]
    if not len(known):
        return _omitted_column(name, "it is empty in every training sample")
    if known.min() == known.max() and not missing.any():
        value = day_of(known[0]) if role == "date" else f"{known[0]:g}"
        return _omitted_column(name, f"it is {value} in every training sample")
    fill = float(np.median(known)) if np.isnan(values).any() else None
    return PlannedColumn(name=name, role=role, fill=fill, flag=bool(missing.any()), form=form)


def _fit_category(name: str, texts: np.ndarray, train: np.ndarray) -> PlannedColumn:
    own = [texts[row] for row in train]
    counts = Counter(text for text in own if text)
    known, missing = sum(counts.values()), len(own) - sum(counts.values())
    if not counts:
        return _omitted_column(name, "it is empty in every training sample")
    if len(counts) == 1 and not missing:
        return _omitted_column(name, f"it is '{next(iter(counts))[:40]}' in every training sample")
    if len(counts) > 10 and 2 * len(counts) > known:
        what = "like a name"
        if looks_like_sentences(own):
            what = f"like sentences: --text {name} (text='{name}') reads them, and no other column"
        return _omitted_column(name, f"it has {len(counts):,} different texts in {known:,} training samples, {what}")
    frequent = sorted(counts, key=lambda level: (-counts[level], level))[:MOST_LEVELS]
    return PlannedColumn(
        name=name, role="category", levels=tuple(sorted(frequent)), seen=len(counts), flag=bool(missing)
    )


def looks_like_sentences(texts: Sequence[str]) -> bool:
    """Whether texts have five words or more on average."""
    known = [text for text in texts if text]
    return bool(known) and sum(len(text.split()) for text in known) >= 5 * len(known)


def _refuse_stray_words(texts: np.ndarray, where: str) -> None:
    """Raise an error if most cells are numbers or dates, but not all: one word would make names of them."""
    known = np.array([bool(text) for text in texts])
    if len(set(texts[known])) <= FEW_LEVELS:
        return
    for what, test in {"a number": reads_as_number, "a date": is_date}.items():
        fitting = np.array([test(text) for text in texts])
        if known.sum() > fitting.sum() > known.sum() / 2:
            row = int(np.flatnonzero(known & ~fitting)[0])
            raise FedloomError(
                f"{where}, row {row + 1}: '{texts[row][:40]}' is not {what}, but most cells are: correct it, or ignore "
                "the column."
            )
    marked = np.array([MARKED_NUMBER.fullmatch(text) is not None for text in texts])
    if 2 * marked.sum() > known.sum():
        row = int(np.flatnonzero(marked)[0])
        raise FedloomError(
            f"{where}, row {row + 1}: '{texts[row][:40]}' is a number with a unit or with marks between thousands: "
            "write plain numbers, or ignore the column."
        )


def fit_words(table: Table, name: str, train: np.ndarray) -> ColumnPlan:
    """The plan of a column of words, one sample being a sequence of them.

    Args:
        name: The column.
        train: The rows that are training samples; the known words are theirs.
    """
    cells = as_texts(table.columns[name])
    counts = Counter(word for row in train for word in cells[row].split())
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
    longest = max(len(cell.split()) for cell in cells)
    words = PlannedColumn(name=name, role="words", levels=tuple(sorted(frequent)), seen=len(counts), length=longest)
    return ColumnPlan(columns=(words,))


def _omitted_column(name: str, reason: str) -> PlannedColumn:
    return PlannedColumn(name=name, role="left out", reason=reason)
