"""CSV and TSV files, packed with gzip or not: the one place where they are opened.

A file is UTF-8 with or without a byte-order mark, and its first row names the columns. Cells are separated by a comma,
a semicolon or a tab, whichever the first row has most. Blank lines, and rows without any filled cell, are skipped. Rows
are counted from 1, the header and blank lines not included.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.files.limits import (
    LONGEST_LINE,
    PACKED,
    SMALL,
    TooLarge,
    check_bytes,
    check_columns,
    check_size,
    most_data,
)

CHUNK = 20_000
"""The most rows that are in memory as texts."""
CELLS = 4_000_000
"""The most cells that are."""
SEPARATORS = (",", ";", "\t")
MISSING = frozenset(
    ("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "<NA>", "#N/A", "NULL", "null", "None", "NaT", "?"),
)
"""Cells that say that a value is missing."""

Rows = Sequence[Sequence[str]]


def csv_rows(path: Path) -> Iterator[Rows]:
    """The header of a file as a list of one row, then its rows in bounded chunks.

    Args:
        path: The file. An empty file has an empty header. A row whose number of cells differs from the header's is an
            error.
    """
    with _readable(path), _open(path) as file:
        text = _lines(file, path)
        first = _first_row(text)
        lines = csv.reader(itertools.chain([first], text), delimiter=separator(first, path))
        reader = (row for row in lines if any(cell.strip() for cell in row))
        header = [name.strip() for name in next(reader, [])]
        check_columns(path.name, len(header))
        yield [header]
        seen, at_once = 0, max(1, min(CHUNK, CELLS // max(1, len(header))))
        while rows := list(itertools.islice(reader, at_once)):
            for number, row in enumerate(rows, start=seen + 1):
                if len(row) != len(header):
                    raise FedloomError(
                        f"{path.name}, row {number}: {len(row)} cells where the header has {len(header)}."
                    )
            yield rows
            seen += len(rows)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn an error of reading a file into one sentence."""
    try:
        yield
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        hint = ": save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise FedloomError(f"{path.name} is not a readable CSV file in UTF-8 ({error}){hint}.") from error


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    """The lines of a file, as long as they are those of a table: a hole, or what packs to nothing, is not."""
    packed, count, most = path.suffix.lower() == ".gz", 0, most_data()
    if packed:
        most = min(most, max(SMALL, PACKED * path.stat().st_size))
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise TooLarge(f"{path.name} has a line of more than {LONGEST_LINE:,} characters, so it is not a table.")
        count += len(line)
        if count > most:
            check_bytes(f"{path.name}, unpacked," if packed else path.name, count, most)
        yield line


def _first_row(lines: Iterable[str]) -> str:
    """The first row that is not blank."""
    return next((line for line in lines if line.strip()), "")


def has_decimal_commas(path: Path) -> bool:
    """Whether a comma may stand before decimals: it does not separate the cells of the file."""
    with _readable(path), _open(path) as file:
        return separator(_first_row(_lines(file, path)), path) != ","


def _open(path: Path) -> TextIO:
    check_size(path, where=path.name)
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(gzip.open(path, "rb"), encoding="utf-8-sig", newline="")  # type: ignore[arg-type,unused-ignore]
    return path.open(encoding="utf-8-sig", newline="")


def separator(first_row: str, path: Path) -> str:
    """What separates the cells of a file: the mark that its first row has most; by the ending where it has none."""
    unquoted = "".join(first_row.split('"')[::2])
    best = max(SEPARATORS, key=unquoted.count)
    if best in unquoted:
        return best
    return "\t" if ".tsv" in path.name.lower() else ","


def csv_columns(path: Path, texts: Collection[str] = ()) -> dict[str, np.ndarray]:
    """The columns of a file by name: float64 where every cell is a number (NaN: missing), else texts ("": missing).

    Args:
        texts: Columns that stay texts, also where they are numbers.
    """
    text = set(texts)
    while True:  # a column that turns out to be text is read again from the start, as text
        columns = _read_columns(path, text)
        late = {name for name, column in columns.items() if name not in text and column.dtype == object}
        if not late:
            return columns
        text |= late


def _read_columns(path: Path, text: Collection[str]) -> dict[str, np.ndarray]:
    chunks = csv_rows(path)
    header = list(next(chunks)[0])
    if not header:
        raise FedloomError(f"{path.name} is empty: the first row names the columns.")
    refuse_repeated(header, path.name)
    pieces: list[list[np.ndarray]] = [[] for _ in header]
    decimal_comma = has_decimal_commas(path)
    for rows in chunks:
        for place, cells in enumerate(zip(*rows, strict=True)):
            pieces[place].append(text_cells(cells) if header[place] in text else _cells(cells, decimal_comma))
    if not pieces[0]:
        raise FedloomError(f"{path.name} has a header and no rows: add samples.")
    return {name: _join(found) for name, found in zip(header, pieces, strict=True)}


def refuse_repeated(header: Sequence[str], where: str) -> None:
    """Refuse a table in which two columns have one name.

    Args:
        header: The names of its columns.
        where: What an error calls it.
    """
    for name, count in Counter(header).items():
        if count > 1:
            raise FedloomError(f"{where} has the column '{name}' twice: give each column its own name.")


def _join(pieces: list[np.ndarray]) -> np.ndarray:
    kind: type = object if any(piece.dtype == object for piece in pieces) else np.float64
    return np.concatenate([piece.astype(kind, copy=False) for piece in pieces])


def _cells(cells: Sequence[str], decimal_comma: bool) -> np.ndarray:
    """Numbers if all cells are numbers or missing, else texts."""
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        filled = _with_nan(cells)
    try:
        return np.array([cell.replace(",", ".") for cell in filled] if decimal_comma else filled, dtype=np.float64)
    except ValueError:
        return text_cells(cells)


def _with_nan(cells: Sequence[str]) -> list[str]:
    return ["nan" if cell.strip() in MISSING else cell for cell in cells]


def text_cells(cells: Sequence[object]) -> np.ndarray:
    """Cells as texts without surrounding spaces; a missing one is empty."""
    found = np.empty(len(cells), dtype=object)
    found[:] = ["" if (word := str(cell).strip()) in MISSING else word for cell in cells]
    return found
