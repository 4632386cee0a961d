"""Tables with a header, as they are: CSV and TSV files, parquet files, a folder of files, pandas frames.

A table is columns by name. Numbers are float64 (NaN: missing), texts are objects ("": missing), times are
``datetime64[s]`` (NaT: missing). What a model gets of them is decided by ``data/tables/column_plan.py``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError, suggestion
from fedloom.data.readers.csv import csv_columns, csv_rows, has_decimal_commas, text_cells
from fedloom.data.readers.leaf import list_parts
from fedloom.data.readers.parquet import ARROW_ENDINGS, parquet_columns, parquet_header
from fedloom.data.tables.labels import is_label_list, label_cell

LONGEST_NAME = 200  # characters of a label or a client
TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
BINARY_ENDINGS = (".parquet", *ARROW_ENDINGS)
TABLE_ENDINGS = (*TEXT_ENDINGS, *BINARY_ENDINGS)
DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
MOST_NAMES = 12  # at most this many names in an error message
FILE_NAME = "client"
"""The client column of a folder with one table per client: the names of the files."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Args:
        where: What an error calls the table.
        names: Columns whose numbers are names, as a pandas category of numbers.
        decimal_commas: Whether 1,5 is a number.
    """

    columns: Mapping[str, np.ndarray]
    where: str
    names: Collection[str] = field(default_factory=frozenset)
    decimal_commas: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def rows(self, keep: np.ndarray) -> Table:
        """The table with some of its rows.

        Args:
            keep: Whether each row is kept, or the numbers of rows.
        """
        return replace(self, columns={name: column[keep] for name, column in self.columns.items()})

    def without(self, names: Collection[str]) -> Table:
        """The table without some columns.

        Args:
            names: The columns that are left out.
        """
        return replace(self, columns={name: column for name, column in self.columns.items() if name not in names})

    def require(self, names: Sequence[str]) -> None:
        """Raise an error if a column is missing.

        Args:
            names: The columns that the table must have.
        """
        for name in names:
            if name not in self.columns:
                raise FedloomError(
                    f"{self.where} has no column '{name}': its columns are {name_list(self.columns)}."
                    f"{suggestion(name, self.columns)}"
                )

    def values(self, name: str) -> np.ndarray:
        """A column as texts; if all are numbers, with a point before their decimals.

        Args:
            name: The column.
        """
        words = as_texts(self.columns[name])
        if not self.decimal_commas or not all(DECIMAL_COMMA.fullmatch(word) for word in words if word):
            return words
        found = np.empty(len(words), dtype=object)
        found[:] = [word.replace(",", ".") for word in words]
        return found

    def texts(self, name: str, what: str) -> np.ndarray:
        """A column of names as texts, none of them missing.

        Args:
            name: The column.
            what: What an error calls the cells, for instance ``client``.
        """
        words = as_texts(self.columns[name])
        for row, word in enumerate(words, start=1):
            if not word or len(word) > LONGEST_NAME:
                problem = "the cell is empty" if not word else f"{len(word)} characters are too long for a {what}"
                raise FedloomError(
                    f"{self.where}: column '{name}', row {row}: {problem}: fill it in or leave the row out."
                )
        return np.array(words.tolist())


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its ending."""
    return path.name.lower().endswith(TABLE_ENDINGS)


def table_files(path: Path) -> list[Path]:
    """A table, or the pieces of one that lie in a folder, by their numbers and names; none if there are none.

    Args:
        path: A file, or a folder with tables in itself, not in its folders.
    """
    if not path.is_dir():
        return [path] if is_table(path) else []
    pieces = (file for file in path.iterdir() if file.is_file() and is_table(file) and not file.name.startswith("."))
    return sorted(pieces, key=_piece_order)


def _piece_order(file: Path) -> tuple[bool, str]:
    return not file.name[0].isdigit(), file.name.zfill(40)


def as_texts(column: np.ndarray) -> np.ndarray:
    """A column as texts; whole numbers have no decimals, and a missing value is empty."""
    if column.dtype.kind == "f":
        cells = ["" if number != number else f"{number:.0f}" if number == round(number) else repr(number)
                 for number in column.tolist()]  # fmt: skip
    elif column.dtype.kind == "M":
        cells = ["" if time == "NaT" else time for time in np.datetime_as_string(column).tolist()]
    else:
        return column
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def name_list(names: Collection[str]) -> str:
    """Names for an error message: the first few, and how many more there are."""
    shown = [name or "(no name)" for name in names]
    more = f" and {len(shown) - MOST_NAMES} more" if len(shown) > MOST_NAMES else ""
    return f"{', '.join(shown[:MOST_NAMES])}{more}"


def order_features(features: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """The feature columns in the file's order; where ``wanted`` names some, exactly these in its order."""
    there, named = set(features), set(wanted)
    missing = [name for name in wanted if name not in there]
    if missing:
        raise FedloomError(
            f"{where} has no feature column '{missing[0]}': it has {name_list(features)}, "
            f"and must have {name_list(wanted)}."
        )
    extra = [name for name in features if name not in named] if wanted else []
    if extra:
        raise FedloomError(
            f"{where} has the column '{extra[0]}', which is not one of the features {name_list(wanted)}: remove or "
            "ignore it."
        )
    return list(wanted or features)


def read_table(path: Path, texts: Collection[str] = (), ignore: Collection[str] = ()) -> Table:
    """Read a table, by its ending as CSV, TSV (gzipped or not), parquet or Arrow; or the pieces of one in a folder.

    Args:
        texts: Columns that are names and stay texts, also where they look like numbers.
        ignore: Columns that are left out.
    """
    if path.is_dir():
        return join_tables([read_table(piece, texts, ignore) for piece in table_files(path)], path.name)
    if path.suffix.lower() in BINARY_ENDINGS:
        return Table(parquet_columns(path, ignore), path.name)
    table = Table(csv_columns(path, texts), path.name, decimal_commas=has_decimal_commas(path))
    table.require(list(ignore))
    return table.without(ignore)


def table_header(path: Path) -> list[str]:
    """The names of a table's columns; where it is in pieces, of the first one."""
    path = table_files(path)[0] if path.is_dir() else path
    return parquet_header(path) if path.suffix.lower() in BINARY_ENDINGS else list(next(csv_rows(path))[0])


def read_tables_per_client(
    folder: Path, texts: Collection[str] = (), ignore: Collection[str] = (), client: str = FILE_NAME
) -> tuple[Table, np.ndarray | None]:
    """A folder of tables, in the folder or in its ``train`` and ``test`` folders: one per client, or one in many files.

    Args:
        folder: The folder; the name of a file, without its endings, is its client, unless the tables have the column of
            the client: then they are pieces of one table.
        texts: Columns that are names and stay texts.
        ignore: Columns that are left out.
        client: The column of the client.

    Returns:
        The tables as one, with a column of the client, and whether each row is for testing (None: not said).
    """
    pieces: list[tuple[str, str, Table]] = []
    for part, files in list_parts(folder, "*"):
        for path in sorted(filter(is_table, files), key=_piece_order):
            pieces.append((path.name.split(".")[0], part, read_table(path, texts, ignore)))
    tables = [table for *_, table in pieces]
    whole, sizes = join_tables(tables, folder.name), [len(table) for table in tables]
    test = np.repeat([part == "test" for _, part, _ in pieces], sizes)
    own_test = test if test.any() else None
    if client in whole.columns:
        return whole, own_test
    if FILE_NAME in whole.columns:
        raise FedloomError(f"{folder.name}: its files are the clients, but they have a column '{FILE_NAME}' too.")
    clients = np.repeat(np.array([client for client, *_ in pieces], dtype=object), sizes)
    return replace(whole, columns={**whole.columns, FILE_NAME: clients}), own_test


def join_tables(tables: Sequence[Table], where: str) -> Table:
    """Several tables with the same columns as one.

    Args:
        tables: The tables, one after the other.
        where: What an error calls all of them.
    """
    first = tables[0]
    for table in tables:
        if set(table.columns) != set(first.columns):
            strange = sorted(set(table.columns) ^ set(first.columns))[0]
            raise FedloomError(
                f"{where}: {first.where} and {table.where} differ in the column '{strange}': give all tables the same "
                "columns."
            )
    joined = {name: _concatenate([table.columns[name] for table in tables]) for name in first.columns}
    names = frozenset(name for table in tables for name in table.names)
    return Table(joined, where, names, decimal_commas=all(table.decimal_commas for table in tables))


def _concatenate(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Columns of several files as one; of numbers and texts, texts."""
    kinds = {column.dtype.kind for column in columns}
    return np.concatenate(columns if len(kinds) == 1 else [as_texts(column) for column in columns])


def table_of_frame(frame: Any, where: str = "the frame") -> Table:
    """A pandas frame as a table; a column of type ``category`` is one of names, whatever its values are.

    Args:
        frame: The frame. Its index is left out.
        where: What an error calls it.
    """
    columns, names = {}, set()
    for name in frame.columns:
        series, kind = frame[name], str(frame[name].dtype)
        if str(name) in columns:
            raise FedloomError(f"{where} has the column '{name}' twice: give each column its own name.")
        if kind == "category":
            names.add(str(name))
        if kind.startswith("datetime64"):
            series = series.dt.tz_localize(None) if series.dt.tz is not None else series
            columns[str(name)] = series.to_numpy().astype("datetime64[s]")
        elif kind != "category" and series.dtype.kind in "iufb":
            columns[str(name)] = series.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            missing = series.isna().to_numpy()
            cells = [None if gone else value for value, gone in zip(series.tolist(), missing.tolist(), strict=True)]
            columns[str(name)] = _object_cells(cells, where)
    if not len(frame) or not columns:
        raise FedloomError(f"{where} has no rows or no columns: add samples.")
    return Table(columns, where, names)


def _object_cells(cells: Sequence[Any], where: str) -> np.ndarray:
    """Python values as a column: numbers if all are, else texts; a list of names is ``fever|cough``."""
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, int | float | np.number | bool) for cell in known):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    lists = [label_cell(cell, where) if is_label_list(cell) else cell for cell in cells]
    return text_cells(["" if cell is None else cell for cell in lists])
