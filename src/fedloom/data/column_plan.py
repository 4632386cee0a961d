"""What is done to each column of a user's table: one plan, fitted on training samples, for everything that follows.

A column of numbers is a feature; missing cells become the training median, and a feature says that they were missing.
A column of texts is a feature per level that the training samples have, and one for unknown levels. A date is days,
month and weekday. A column that says nothing (constant, empty) or names its row (an index, an identifier) is left out.

The kind of a column follows from all of its cells, but medians and levels are those of the training samples. The plan
is stored with a model and in the schema of a deployment, so ``predict`` and sites do the same as the training did.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedloom.core.errors import FedloomError
from fedloom.data.readers.dates import date_features, date_form, parse_dates
from fedloom.data.readers.tables import Table, as_texts, name_list
from fedloom.data.readers.words import encode_words

MOST_LEVELS = 50
"""A category has at most this many levels, the most frequent ones; the others are unknown levels."""
MOST_WORDS = 10_000
"""So many words of a column of words are known, the most frequent ones."""
FEW_LEVELS = 20
"""Cells of numbers and words with at most this many different values are a category, and otherwise an error."""
MOST_LISTED = 8
"""Columns of plain numbers are said in one line each up to this number, and together above it."""
INDEX = re.compile(r"|unnamed: ?\d+|index|id", re.IGNORECASE)
IDENTIFIER = re.compile(r".*([_ .-]id|[a-z]I[dD])", re.DOTALL)


class PlannedColumn(BaseModel):
    """A column of a table, and what is done to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    role: Literal["number", "category", "date", "words", "left out"]
    fill: float | None = None
    """What a missing number or date (in seconds since 1970) becomes; None if none may be missing."""
    flag: bool = False
    """Whether a feature says that the cell is missing."""
    levels: tuple[str, ...] = ()
    """The levels of a category that have a feature of their own; the words that are known."""
    seen: int = 0
    """How many levels the training samples have."""
    length: int = 0
    """The most words of a cell."""
    form: str = ""
    """How a date is written; empty for a column of times."""
    reason: str = ""
    """Why a column is left out."""

    @property
    def features(self) -> list[str]:
        """The names of the features that are made of the column."""
        parts = {
            "number": [self.name],
            "category": [*(f"{self.name}={level}" for level in self.levels), f"{self.name}: unknown"],
            "date": [f"{self.name}: {part}" for part in ("days", "month", "weekday", "hour")],
            "words": [self.name],
            "left out": [],
        }[self.role]
        return [*parts, f"{self.name}: missing"] if self.flag else parts

    @property
    def indicators(self) -> list[bool]:
        """Which of the features are 0 or 1 and stay so; the others are standardised."""
        own = len(self.features) - self.flag
        return [self.role in ("category", "words")] * own + [True] * self.flag

    @property
    def line(self) -> str:
        """What is done to the column, in words."""
        flag = ", and a feature says that they were" if self.flag else ""
        if self.role == "left out":
            return f"{self.name or '(no name)'}: left out, {self.reason}"
        if self.role == "words":
            more = f" most frequent of {self.seen:,}" if self.seen > len(self.levels) else ""
            return f"{self.name}: words; {len(self.levels):,}{more} are known, up to {self.length} in a cell"
        if self.role == "category":
            more = f" most frequent of {self.seen:,}" if self.seen > len(self.levels) else ""
            flagged = ", and one for missing" if self.flag else ""
            return (
                f"{self.name}: a category; a feature for each of {len(self.levels)}{more} levels "
                f"({name_list(self.levels[:4])}{', …' if len(self.levels) > 4 else ''}), one for unknown{flagged}"
            )
        if self.role == "date":
            filled = "" if self.fill is None else f"; missing ones become {_day(self.fill)}, the training median{flag}"
            return f"{self.name}: a date; days, month, weekday and hour{filled}"
        filled = "" if self.fill is None else f"; missing ones become {self.fill:.6g}, the training median{flag}"
        return f"{self.name}: a number{filled}"

    def encode(self, table: Table) -> np.ndarray:
        """The features of the column for each row: rows × features."""
        cells = table.columns[self.name]
        where = f"{table.where}: column '{self.name}'"
        if self.role == "category":
            texts = as_texts(cells)
            place = {level: number for number, level in enumerate(self.levels)}
            missing = np.array([not text for text in texts], dtype=bool)
            at = np.array([place.get(text, len(self.levels)) for text in texts])
            found = np.zeros((len(texts), len(self.levels) + 1), dtype=np.float32)
            found[np.arange(len(texts)), at] = 1
            if self.flag:
                found[missing] = 0
        elif self.role == "words":
            return encode_words(as_texts(cells), self.levels, self.length, where)
        elif self.role == "date":
            times, missing = self._filled(_times(cells, self.form, where), where)
            found = date_features(times)
        else:
            numbers, missing = self._filled(_numbers(cells, where), where)
            found = numbers.astype(np.float32)[:, None]
        return np.concatenate([found, missing[:, None].astype(np.float32)], 1) if self.flag else found

    def _filled(self, values: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
        """The values with missing ones filled in, and which were missing."""
        missing = np.isnan(values)
        if not missing.any():
            return values, missing
        if self.fill is None:
            raise FedloomError(
                f"{where}, row {int(np.flatnonzero(missing)[0]) + 1}: the cell is empty, but no cell of the training "
                "data was: fill it in, or leave the row out."
            )
        return np.where(missing, self.fill, values), missing


class ColumnPlan(BaseModel):
    """What is done to the columns of a table, in the order of the model's features."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: tuple[PlannedColumn, ...]

    @staticmethod
    def of_numbers(names: Iterable[str]) -> ColumnPlan:
        """The plan of a table with nothing but numbers, of which none is missing.

        Args:
            names: The columns.
        """
        return ColumnPlan(columns=tuple(PlannedColumn(name=name, role="number") for name in names))

    @property
    def used(self) -> tuple[PlannedColumn, ...]:
        """The columns that are not left out."""
        return tuple(column for column in self.columns if column.role != "left out")

    @property
    def is_plain(self) -> bool:
        """Whether every column is a number of which none is missing."""
        return all(column.role == "number" and column.fill is None for column in self.columns)

    @property
    def is_fitted(self) -> bool:
        """Whether a median or a level of the training samples is used."""
        return any(column.fill is not None or column.levels for column in self.used)

    @property
    def words(self) -> int:
        """The number of tokens that a column of words is made of, padding and unknown ones included; 0 without one."""
        return next((len(column.levels) + 2 for column in self.used if column.role == "words"), 0)

    @property
    def features(self) -> list[str]:
        """The names of the features, in the model's order."""
        return [name for column in self.used for name in column.features]

    @property
    def indicators(self) -> list[bool]:
        """Which features are 0 or 1 and stay so; the others are standardised."""
        return [mark for column in self.used for mark in column.indicators]

    @property
    def lines(self) -> list[str]:
        """What is done to each column, in a line each; many plain numbers are in one line."""
        plain = [column.name for column in self.columns if column.role == "number" and column.fill is None]
        together = len(plain) > MOST_LISTED
        lines = [f"{name_list(plain)}: {len(plain)} numbers"] if together else []
        return lines + [column.line for column in self.columns if not (together and column.name in plain)]

    def encode(self, table: Table) -> np.ndarray:
        """The features of a table's rows, rows × features; a column that is missing or wrong is an error.

        Args:
            table: The table; columns that the plan leaves out may be there or not.
        """
        table.require([column.name for column in self.used])
        encoded = [column.encode(table) for column in self.used]
        return np.concatenate(encoded, 1) if len(encoded) != 1 else encoded[0]


def fit_columns(table: Table, names: Sequence[str], train: np.ndarray) -> ColumnPlan:
    """The plan of some columns of a table.

    Args:
        table: The table.
        names: The columns that are inputs.
        train: The rows that are training samples; medians and levels are theirs.
    """
    others = len(names) > 1
    columns = (_fit(table, name, train, may_count=others and place == 0) for place, name in enumerate(names))
    plan = ColumnPlan(columns=tuple(columns))
    if not plan.used:
        raise FedloomError(f"{table.where} has no column to learn from: {'; '.join(plan.lines) or 'add the inputs'}.")
    return plan


def _fit(table: Table, name: str, train: np.ndarray, may_count: bool) -> PlannedColumn:
    """The plan of one column; the first of several may be a plain count of the rows, whatever its name is."""
    cells, where = table.columns[name], f"{table.where}: column '{name}'"
    if cells.dtype.kind == "f" and name not in table.names:
        infinite = np.flatnonzero(np.isinf(cells))
        if len(infinite):
            raise FedloomError(f"{where}, row {infinite[0] + 1} is infinite: fill it in or leave the row out.")
        return _fit_numbers(name, cells, train, may_count)
    if cells.dtype.kind == "M":
        return _fit_values(name, "date", _times(cells, "", where), train)
    texts = as_texts(cells)
    known = [text for text in texts if text]
    form = date_form(known)
    if form == "unclear":
        return _left_out(name, "its dates may be day/month or month/day: write them as 2026-01-31")
    if form:
        return _fit_values(name, "date", _times(cells, form, where), train, form)
    if name not in table.names:
        _refuse_stray_words(texts, where)
    return _fit_category(name, texts, train)


def _fit_numbers(name: str, cells: np.ndarray, train: np.ndarray, may_count: bool) -> PlannedColumn:
    known = cells[~np.isnan(cells)]
    whole = bool(len(known)) and bool((known == np.floor(known)).all())
    if whole and len(known) == len(cells) > 2:
        if may_count and cells[0] in (0, 1) and bool((np.diff(cells) == 1).all()):
            return _left_out(name, "it counts the rows")
        if INDEX.fullmatch(name) and len(np.unique(cells)) == len(cells):
            return _left_out(name, "it has another number in every row")
    if whole and (INDEX.fullmatch(name) or IDENTIFIER.fullmatch(name)):
        return _fit_category(name, as_texts(cells), train)
    return _fit_values(name, "number", cells, train)


def _fit_values(
    name: str, role: Literal["number", "date"], values: np.ndarray, train: np.ndarray, form: str = ""
) -> PlannedColumn:
    """A column of numbers or of times in seconds."""
    own = values[train]
    missing, known = np.isnan(own), own[~np.isnan(own)]
    if not len(known):
        return _left_out(name, "it is empty in every training sample")
    if known.min() == known.max() and not missing.any():
        value = _day(known[0]) if role == "date" else f"{known[0]:g}"
        return _left_out(name, f"it is {value} in every training sample")
    fill = float(np.median(known)) if np.isnan(values).any() else None
    return PlannedColumn(name=name, role=role, fill=fill, flag=bool(missing.any()), form=form)


def _fit_category(name: str, texts: np.ndarray, train: np.ndarray) -> PlannedColumn:
    own = [texts[row] for row in train]
    counts = Counter(text for text in own if text)
    known, missing = sum(counts.values()), len(own) - sum(counts.values())
    if not counts:
        return _left_out(name, "it is empty in every training sample")
    if len(counts) == 1 and not missing:
        return _left_out(name, f"it is '{next(iter(counts))[:40]}' in every training sample")
    if len(counts) > 10 and 2 * len(counts) > known:
        return _left_out(name, f"it has {len(counts):,} different texts in {known:,} training samples, like a name")
    frequent = sorted(counts, key=lambda level: (-counts[level], level))[:MOST_LEVELS]
    return PlannedColumn(
        name=name, role="category", levels=tuple(sorted(frequent)), seen=len(counts), flag=bool(missing)
    )


def _refuse_stray_words(texts: np.ndarray, where: str) -> None:
    """Raise an error if most cells are numbers, but not all: one word would make names of them."""
    numbers = np.array([_is_number(text) for text in texts])
    known = np.array([bool(text) for text in texts])
    if 2 * numbers.sum() <= known.sum() or len(set(texts[known])) <= FEW_LEVELS:
        return
    row = int(np.flatnonzero(known & ~numbers)[0])
    raise FedloomError(
        f"{where}, row {row + 1}: '{texts[row][:40]}' is not a number, but most cells are: correct it, or ignore the "
        "column."
    )


def fit_words(table: Table, name: str, train: np.ndarray) -> ColumnPlan:
    """The plan of a column of words, one sample being a sequence of them.

    Args:
        table: The table.
        name: The column.
        train: The rows that are training samples; the known words are theirs.
    """
    cells = as_texts(table.columns[name])
    counts = Counter(word for row in train for word in cells[row].split())
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]
    longest = max(len(cell.split()) for cell in cells)
    words = PlannedColumn(name=name, role="words", levels=tuple(sorted(frequent)), seen=len(counts), length=longest)
    return ColumnPlan(columns=(words,))


def _left_out(name: str, reason: str) -> PlannedColumn:
    return PlannedColumn(name=name, role="left out", reason=reason)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(cells: np.ndarray, where: str) -> np.ndarray:
    """Cells as numbers, NaN where they are missing."""
    if cells.dtype.kind == "f":
        numbers = cells
    else:
        for row, text in enumerate(as_texts(cells), start=1):
            if text and not _is_number(text):
                raise FedloomError(
                    f"{where}, row {row}: '{text[:40]}' is not a number: correct it, or leave the row out."
                )
        numbers = np.array([float(text) if text else np.nan for text in as_texts(cells)])
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise FedloomError(f"{where}, row {infinite[0] + 1} is infinite: fill it in or leave the row out.")
    return numbers


def _times(cells: np.ndarray, form: str, where: str) -> np.ndarray:
    """Cells as seconds since 1970, NaN where they are missing."""
    if cells.dtype.kind == "M":
        return np.where(np.isnat(cells), np.nan, cells.astype("datetime64[s]").astype(np.float64))
    return parse_dates(as_texts(cells), form, where)


def _day(seconds: float) -> str:
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))
