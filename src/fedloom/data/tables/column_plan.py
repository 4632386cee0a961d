"""What is done to each column of a user's table: one plan, fitted on training samples, for everything that follows.

A column of numbers is a feature; missing cells become the training median, and a feature says that they were missing.
A column of texts is a feature per level that the training samples have, and one for unknown levels, or it is sentences
as tokens (``data/tables/text_column.py``). A date is days, month and weekday. A column that says nothing (constant,
empty) or names its row (an index, an identifier) is left out.

The plan is fitted by ``data/tables/fit_columns.py``. It is stored with a model and in the schema of a deployment, so
``predict`` and sites do the same as the training did.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from fedloom.core.errors import FedloomError
from fedloom.data.tables.dates import date_features, parse_dates
from fedloom.data.tables.table_columns import TableColumns
from fedloom.data.tables.tables import Table, as_texts, name_list, order_features, read_table, table_files

FIRST_WORD = 2
TEXT_MODEL = "bag-of-words"
"""The usual model of a text."""
TOKEN = re.compile(r"\w+|[^\w\s]")
"""A token of a text: a run of letters and digits, or any other visible character alone."""

MOST_LISTED = 8
"""Columns of plain numbers get a line each up to this number, and one line together above it."""


class PlannedColumn(BaseModel):
    """A column of a table, and what is done to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    role: Literal["number", "category", "date", "words", "text", "left out"]
    fill: float | None = None
    """What a missing number or date (in seconds since 1970) becomes; None if none may be missing."""
    flag: bool = False
    """Whether a feature says that the cell is missing."""
    levels: tuple[str, ...] = ()
    """The levels of a category that have a feature of their own; the words that are known."""
    seen: int = 0
    """How many levels the training samples have."""
    numeric: bool = False
    """Whether the levels of a category are numbers, so that 01 is 1."""
    length: int = 0
    """The most words of a cell; of a text, how many of its tokens are read."""
    cut: int = 0
    """How many training texts have more tokens than are read."""
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
            "text": [self.name],
            "left out": [],
        }[self.role]
        return [*parts, f"{self.name}: missing"] if self.flag else parts

    @property
    def indicators(self) -> list[bool]:
        """Which of the features are 0 or 1 and stay so; the others are standardised."""
        own = len(self.features) - self.flag
        return [self.role in ("category", "words", "text")] * own + [True] * self.flag

    @property
    def line(self) -> str:
        """What is done to the column, in words."""
        flag = ", and a feature says that they were" if self.flag else ""
        if self.role == "left out":
            return f"{self.name or '(no name)'}: left out, {self.reason}"
        if self.role == "words":
            more = f" most frequent of {self.seen:,}" if self.seen > len(self.levels) else ""
            return f"{self.name}: words; {len(self.levels):,}{more} are known, up to {self.length} in a cell"
        if self.role == "text":
            more = f" most frequent of {self.seen:,}" if self.seen > len(self.levels) else ""
            cut = f" ({self.cut:,} training texts are longer)" if self.cut else ""
            return (
                f"{self.name}: text; {len(self.levels):,}{more} words are known, and the first {self.length} of a text "
                f"are read{cut}"
            )
        if self.role == "category":
            more = f" most frequent of {self.seen:,}" if self.seen > len(self.levels) else ""
            flagged = ", and one for missing" if self.flag else ""
            return (
                f"{self.name}: a category; a feature for each of {len(self.levels)}{more} levels "
                f"({self._shown_levels}), one for unknown{flagged}"
            )
        if self.role == "date":
            return f"{self.name}: a date; days, month, weekday and hour{self._filling(day_of)}{flag}"
        return f"{self.name}: a number{self._filling('{:.6g}'.format)}{flag}"

    def _filling(self, shown: Callable[[float], str]) -> str:
        return "" if self.fill is None else f"; missing ones become {shown(self.fill)}, the training median"

    @property
    def _shown_levels(self) -> str:
        """The first levels, each in one short line."""
        shown = [" ".join(level.split()) for level in self.levels[:4]]
        cut = [level if len(level) <= 30 else f"{level[:29]}…" for level in shown]
        return name_list(cut) + (", …" if len(self.levels) > 4 else "")

    def encode(self, table: Table) -> np.ndarray:
        """The features of the column for each row: rows × features."""
        cells = table.columns[self.name]
        where = f"{table.where}: column '{self.name}'"
        if self.role == "category":
            texts = _canonical(as_texts(cells)) if self.numeric else as_texts(cells)
            place = {level: number for number, level in enumerate(self.levels)}
            missing = np.array([not text for text in texts], dtype=bool)
            at = np.array([place.get(text, len(self.levels)) for text in texts])
            found = np.zeros((len(texts), len(self.levels) + 1), dtype=np.float32)
            found[np.arange(len(texts)), at] = 1
            if self.flag:
                found[missing] = 0
        elif self.role == "words":
            return encode_words(as_texts(cells), self.levels, self.length, where)
        elif self.role == "text":
            return encode_tokens([tokens_of(text)[: self.length] for text in as_texts(cells)], self.levels, self.length)
        elif self.role == "date":
            times, missing = self._fill_missing(times_of(cells, self.form, where), where)
            found = date_features(times)
        else:
            numbers, missing = self._fill_missing(_numbers(cells, where), where)
            found = numbers.astype(np.float32)[:, None]
        return np.concatenate([found, missing[:, None].astype(np.float32)], 1) if self.flag else found

    def _fill_missing(self, values: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
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
    def inputs(self) -> tuple[PlannedColumn, ...]:
        """The columns that are not left out."""
        return tuple(column for column in self.columns if column.role != "left out")

    @property
    def columns_needed(self) -> list[str]:
        """The columns that are not left out, by name."""
        return [column.name for column in self.inputs]

    @property
    def columns_known(self) -> list[str]:
        """All columns, also those that are left out, by name."""
        return [column.name for column in self.columns]

    @property
    def what(self) -> str:
        """A row."""
        return "row"

    @property
    def endings(self) -> tuple[str, ...]:
        """None: samples are rows."""
        return ()

    @property
    def reads_npz(self) -> bool:
        """No: it reads tables."""
        return False

    @property
    def usual_model(self) -> str | None:
        """The model of a text; None for rows of features."""
        return TEXT_MODEL if any(column.role == "text" for column in self.inputs) else None

    @property
    def is_plain(self) -> bool:
        """Whether every column is a number of which none is missing."""
        return all(column.role == "number" and column.fill is None for column in self.columns)

    @property
    def is_fitted(self) -> bool:
        """Whether a median or a level of the training samples is used."""
        return any(column.fill is not None or column.levels for column in self.inputs)

    @property
    def texts(self) -> list[str]:
        """The columns whose cells are texts, also where all of a file's are numbers: 01 is not 1."""
        return [
            column.name for column in self.inputs if column.role in ("category", "words", "text") and not column.numeric
        ]

    @property
    def words(self) -> int:
        """The number of tokens that a column of words is made of, padding and unknown ones included; 0 without one."""
        return next((len(column.levels) + 2 for column in self.inputs if column.role in ("words", "text")), 0)

    @property
    def features(self) -> list[str]:
        """The names of the features, in the model's order."""
        return [name for column in self.inputs for name in column.features]

    @property
    def indicators(self) -> list[bool]:
        """Which features are 0 or 1 and stay so; the others are standardised."""
        return [mark for column in self.inputs for mark in column.indicators]

    @property
    def lines(self) -> list[str]:
        """What is done to each column, in a line each; many plain numbers are in one line."""
        plain = [column.name for column in self.columns if column.role == "number" and column.fill is None]
        together = len(plain) > MOST_LISTED
        lines = [f"{name_list(plain)}: {len(plain)} numbers"] if together else []
        return lines + [column.line for column in self.columns if not (together and column.name in plain)]

    def read_table(self, path: Path, columns: TableColumns) -> Table:
        """A user's table, whose columns of categories and words stay texts.

        Args:
            path: A table, or a folder with its pieces.
            columns: The columns that are not inputs.
        """
        if not table_files(path):
            raise FedloomError(
                f"{path.name} is not a table, but the task's data are one: give a .csv, .tsv or .parquet file, or a "
                "folder with its pieces."
            )
        return read_table(path, [*columns.names, *self.texts], columns.ignore)

    def without_unreadable(self, table: Table) -> tuple[Table, str]:
        """All rows: they name no files."""
        return table, ""

    def check_columns(self, inputs: Sequence[str], where: str) -> None:
        """Raise an error if the input columns of a table are not the plan's; what it leaves out may be missing.

        Args:
            inputs: The input columns that a table has.
            where: What an error calls the table.
        """
        used, known = self.columns_needed, self.columns_known
        order_features([name for name in inputs if name in used or name not in known], used, where)

    def encode(self, table: Table) -> np.ndarray:
        """The features of a table's rows, rows × features; a column that is missing or wrong is an error.

        Args:
            table: The table; columns that the plan leaves out may be there or not.
        """
        table.require(self.columns_needed)
        encoded = [column.encode(table) for column in self.inputs]
        return np.concatenate(encoded, 1) if len(encoded) != 1 else encoded[0]


def is_number(text: str) -> bool:
    """Whether a text is a number, with a point before the decimals."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def reads_as_number(text: str) -> bool:
    """Whether a text is a number, with a point or a comma before the decimals."""
    return is_number(text) or is_number(text.replace(",", ".", 1))


def _canonical(texts: np.ndarray) -> np.ndarray:
    """Texts, of which numbers are written in one way."""
    found = np.empty(len(texts), dtype=object)
    found[:] = [as_texts(np.array([float(text)]))[0] if is_number(text) else text for text in texts]
    return found


def _numbers(cells: np.ndarray, where: str) -> np.ndarray:
    """Cells as numbers, NaN where they are missing."""
    if cells.dtype.kind == "f":
        numbers = cells
    else:
        texts = as_texts(cells)
        for test in (reads_as_number, is_number):
            strange = [row for row, text in enumerate(texts) if text and not test(text)]
            if strange:
                raise FedloomError(
                    f"{where}, row {strange[0] + 1}: '{texts[strange[0]][:40]}' is not a number: correct it, or leave "
                    "the row out."
                )
        numbers = np.array([float(text) if text else np.nan for text in texts])
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise FedloomError(f"{where}, row {infinite[0] + 1} is infinite: fill it in or leave the row out.")
    return numbers


def times_of(cells: np.ndarray, form: str, where: str) -> np.ndarray:
    """Cells as seconds since 1970, NaN where they are missing."""
    if cells.dtype.kind == "M":
        return np.where(np.isnat(cells), np.nan, cells.astype("datetime64[s]").astype(np.float64))
    return parse_dates(as_texts(cells), form, where)


def day_of(seconds: float) -> str:
    """The day of a time, as 2026-01-31."""
    return str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))


def tokens_of(text: str) -> list[str]:
    """The words and marks of a text, in lower case."""
    return TOKEN.findall(unicodedata.normalize("NFC", text).lower())


def encode_words(texts: np.ndarray, known: Sequence[str], length: int, where: str) -> np.ndarray:
    """The tokens of each cell, rows × length: 0 is padding, 1 an unknown word, and the known words follow.

    Args:
        texts: The cells; words are separated by spaces.
        known: The words that have a token of their own.
        length: The most words that a cell may have.
        where: What an error calls the column.
    """
    rows = [text.split() for text in texts]
    for row, words in enumerate(rows, start=1):
        if len(words) > length:
            raise FedloomError(f"{where}, row {row} has {len(words)} words, but the model takes {length} at most.")
    return encode_tokens(rows, known, length)


def encode_tokens(rows: Sequence[Sequence[str]], known: Sequence[str], length: int) -> np.ndarray:
    """Rows of words as numbers, rows × length: 0 is padding, 1 an unknown word, and the known words follow.

    Args:
        rows: The words of each row, at most ``length``.
        known: The words that have a number of their own.
        length: How many numbers a row has, padding included.
    """
    place = {word: number for number, word in enumerate(known, start=FIRST_WORD)}
    found = np.zeros((len(rows), length), dtype=np.int64)
    for row, words in enumerate(rows):
        found[row, : len(words)] = [place.get(word, 1) for word in words]
    return found
