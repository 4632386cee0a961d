"""Parquet and Arrow files; they need pyarrow."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.readers.csv import refuse_repeated, text_cells
from fedloom.data.tables.labels import label_cell
from fedloom.files.limits import check_bytes, check_columns, check_size

NUMBER = 8
"""Bytes of a number in memory."""
ARROW_ENDINGS = (".arrow", ".feather")


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise FedloomError("reading parquet needs pyarrow: pip install 'fedloom[parquet]'.") from None
    return arrow, parquet


def parquet_columns(path: Path, ignore: Collection[str] = ()) -> dict[str, np.ndarray]:
    """The columns of a file by name, but for those to ignore: float64 numbers, ``datetime64[s]`` times, else texts."""
    arrow, parquet = _pyarrow()
    check_size(path, where=path.name)
    try:
        if is_arrow(path):
            table = _arrow_reader(path, arrow).read_all()
        else:
            about = parquet.read_metadata(path)
            check_columns(path.name, about.num_columns)
            check_bytes(f"{path.name}, unpacked,", NUMBER * about.num_rows * about.num_columns)
            table = parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise _unreadable(path, error) from error
    check_columns(path.name, table.num_columns)
    if table.num_rows == 0 or not table.column_names:
        raise FedloomError(f"{path.name} has no rows: add samples.")
    refuse_repeated(table.column_names, path.name)
    for name in ignore:
        if name not in table.column_names:
            raise FedloomError(f"{path.name} has no column '{name}': its columns are {', '.join(table.column_names)}.")
    kept = [name for name in table.column_names if name not in ignore]
    return {name: _column(table[name], arrow.types, f"{path.name}: column '{name}'") for name in kept}


def parquet_header(path: Path) -> list[str]:
    """The names of a file's columns."""
    arrow, parquet = _pyarrow()
    try:
        return list((_arrow_reader(path, arrow).schema if is_arrow(path) else parquet.read_schema(path)).names)
    except (OSError, arrow.ArrowException) as error:
        raise _unreadable(path, error) from error


def is_arrow(path: Path) -> bool:
    """Whether a file is of Arrow and not of parquet, by its ending."""
    return path.suffix.lower() in ARROW_ENDINGS


def _arrow_reader(path: Path, arrow: Any) -> Any:
    """A reader of an Arrow file: of its random-access form (Feather), or of its stream, as Hugging Face writes it."""
    source = arrow.memory_map(str(path))
    try:
        return arrow.ipc.open_file(source)
    except arrow.ArrowInvalid:
        source.seek(0)
        return arrow.ipc.open_stream(source)


def _unreadable(path: Path, error: Exception) -> FedloomError:
    kind = "Arrow" if is_arrow(path) else "parquet"
    return FedloomError(f"{path.name} is not a readable {kind} file ({str(error).splitlines()[0][:60]}).")


def _column(column: Any, types: Any, where: str) -> np.ndarray:
    kind = column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        cells = column.to_pylist() if not types.is_floating(kind) else None
        if cells is None:
            return np.asarray(column.to_numpy(), dtype=np.float64)
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    if types.is_timestamp(kind) or types.is_date(kind):
        return np.array([None if cell is None else str(cell)[:19] for cell in column.to_pylist()], "datetime64[s]")
    if types.is_string(kind) or types.is_large_string(kind):
        return text_cells(["" if cell is None else cell for cell in column.to_pylist()])
    if types.is_list(kind) and (types.is_string(kind.value_type) or types.is_large_string(kind.value_type)):
        return text_cells(["" if cell is None else label_cell(cell, where) for cell in column.to_pylist()])
    raise FedloomError(f"{where} is {kind}, which is not a number, a text or a time: ignore the column.")
