"""Parquet files, by columns or by rows; they need pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.readers.csv import CHUNK, Rows


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise FedloomError("reading parquet needs pyarrow: pip install 'fedloom[parquet]'.") from None
    return arrow, parquet


def parquet_columns(path: Path) -> Any:
    """The whole file as a pyarrow table."""
    arrow, parquet = _pyarrow()
    try:
        return parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise FedloomError(f"{path.name} is not a readable parquet file.") from error


def number_columns(table: Any, features: Sequence[str], where: str) -> np.ndarray:
    """Some columns of a pyarrow table as float32 numbers, rows × columns."""
    arrow, _ = _pyarrow()
    numbers = np.empty((table.num_rows, len(features)), dtype=np.float32)
    for place, name in enumerate(features):
        kind = table.schema.field(name).type
        if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)):
            raise FedloomError(f"{where}: column '{name}' is {kind}: features must be numbers; ignore the column.")
        refuse_empty(table, name, where)
        numbers[:, place] = table[name].to_numpy()
    return numbers


def refuse_empty(table: Any, name: str, where: str) -> None:
    """Raise an error if a column of a pyarrow table has an empty cell."""
    if table[name].null_count:
        row = int(np.flatnonzero(table[name].is_null().to_numpy())[0])
        raise FedloomError(f"{where}: column '{name}', row {row + 1}: the cell is empty: fill it in.")


def parquet_rows(path: Path) -> Iterator[Rows]:
    """The column names as a list of one row, then the rows in bounded chunks, cells written as in a CSV file."""
    arrow, parquet = _pyarrow()
    try:
        file = parquet.ParquetFile(path)
        yield [file.schema_arrow.names]
        for batch in file.iter_batches(CHUNK):
            columns = [[_cell(value) for value in column.to_pylist()] for column in batch.columns]
            yield list(zip(*columns, strict=True))
    except (OSError, arrow.ArrowException) as error:
        raise FedloomError(f"{path.name} is not a readable parquet file ({str(error)[:60]}).") from None


def _cell(value: Any) -> str:
    return "" if value is None else str(int(value) if isinstance(value, bool) else value)
