"""CSV and TSV files: the one place where they are opened.

A file is UTF-8 with or without a byte-order mark, and its first row names the columns. Rows are counted from 1, the
header not included.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError

CHUNK = 20_000

Rows = Sequence[Sequence[str]]


def csv_rows(path: Path, *, skip_blank: bool = False) -> Iterator[Rows]:
    """The header of a CSV (or, by its ending, TSV) file as a list of one row, then its rows in bounded chunks.

    Args:
        path: The file. An empty file has an empty header.
        skip_blank: Whether blank lines are left out and not counted. Otherwise a blank line is an error. So is a row
            whose number of cells differs from the header's.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader: Iterator[list[str]] = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            reader = filter(None, reader) if skip_blank else reader
            header = [name.strip() for name in next(reader, [])]
            yield [header]
            seen = 0
            while rows := list(itertools.islice(reader, CHUNK)):
                for number, row in enumerate(rows, start=seen + 1):
                    if len(row) != len(header):
                        raise FedloomError(
                            f"{path.name}, row {number}: {len(row)} cells where the header has {len(header)}."
                        )
                yield rows
                seen += len(rows)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FedloomError(f"{path.name} is not a readable CSV file in UTF-8 ({error}).") from error


def parse_numbers(rows: Rows, places: Sequence[int], features: Sequence[str], seen: int, where: str) -> np.ndarray:
    """The cells at some places of each row as float32 numbers.

    Args:
        rows: A chunk of rows.
        places: The positions of the cells in a row.
        features: The columns' names, for the error that names the first cell that is not a number.
        seen: How many rows of the file came before this chunk.
        where: The file's name.
    """
    try:
        return np.array([[float(row[place]) for place in places] for row in rows], dtype=np.float32)
    except ValueError:
        for number, row in enumerate(rows, start=seen + 1):
            for name, place in zip(features, places, strict=True):
                try:
                    float(row[place])
                except ValueError:
                    problem = f"'{row[place][:40]}' is not a number" if row[place].strip() else "the cell is empty"
                    raise FedloomError(
                        f"{where}: column '{name}', row {number}: {problem}: features must be numbers; "
                        "fill it in, or leave the column out."
                    ) from None
        raise
