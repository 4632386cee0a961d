"""Tables with a header (CSV, TSV, parquet) as numeric features, labels and an optional client column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedloom.core.errors import FedloomError
from fedloom.data.readers.csv import Rows, csv_rows, parse_numbers
from fedloom.data.readers.parquet import number_columns, parquet_columns, refuse_empty

LONGEST_NAME = 200  # characters of a label or a client
TABLE_ENDINGS = (".csv", ".tsv", ".parquet")
MOST_NAMES = 12  # at most this many names in an error message


@dataclass(frozen=True)
class SampleTable:
    """Numeric features by column, one label per row, and a client and a group per row if the table names them."""

    x: np.ndarray
    y: np.ndarray
    client: np.ndarray | None
    features: list[str]
    group: np.ndarray | None = None


def _feature_columns(
    path: Path,
    header: Sequence[str],
    target: str,
    client: str,
    ignore: Sequence[str],
    wanted: Sequence[str] = (),
    group: str | None = None,
) -> list[str]:
    """The feature columns, after checking that every column that the user named exists.

    Where ``wanted`` names features, the file must have exactly these; they come in the order of ``wanted``.
    """
    twice = [name for name in header if list(header).count(name) > 1]
    if twice:
        raise FedloomError(f"{path.name} has the column '{twice[0]}' twice: give each column its own name.")
    named = [target, *ignore, *([] if client == "client" or wanted else [client]), *([] if group is None else [group])]
    for name in named:
        if name not in header:
            raise FedloomError(f"{path.name} has no column '{name}': its columns are {name_list(header)}.")
    features = [name for name in header if name not in {target, client, group, *ignore}]
    if not features:
        raise FedloomError(f"{path.name} has no feature column beside '{target}': add the inputs.")
    return order_features(features, wanted, path.name)


def order_features(features: Sequence[str], wanted: Sequence[str], where: str) -> list[str]:
    """The feature columns in the file's order; where ``wanted`` names some, exactly these in its order."""
    missing = [name for name in wanted if name not in features]
    if missing:
        raise FedloomError(
            f"{where} has no feature column '{missing[0]}': it has {name_list(features)}, "
            f"and must have {name_list(wanted)}."
        )
    extra = [name for name in features if name not in wanted] if wanted else []
    if extra:
        raise FedloomError(
            f"{where} has the column '{extra[0]}', which is not one of the features {name_list(wanted)}: remove or "
            "ignore it."
        )
    return list(wanted or features)


def name_list(names: Sequence[str]) -> str:
    """Names for an error message: the first few, and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def read_table(
    path: Path,
    target: str,
    client: str,
    ignore: Sequence[str],
    wanted: Sequence[str] = (),
    group: str | None = None,
) -> SampleTable:
    """Read a table, by its ending as CSV, TSV or parquet.

    Args:
        path: The file.
        target: The column of labels.
        client: The column that names the client of a row; it may be missing if it is called ``client``.
        ignore: Columns that are left out. Every other column is a numeric feature.
        wanted: The features that the file must have, in the order in which they are returned; empty for any.
        group: The column that says which rows belong together; None if there is none.
    """
    reader = _read_parquet if path.suffix.lower() == ".parquet" else _read_csv
    return reader(path, target, client, ignore, wanted, group)


def _read_csv(
    path: Path, target: str, client: str, ignore: Sequence[str], wanted: Sequence[str], group: str | None
) -> SampleTable:
    chunks = csv_rows(path)
    header = next(chunks)[0]
    if not header:
        raise FedloomError(f"{path.name} is empty: the first row names the columns.")
    features = _feature_columns(path, header, target, client, ignore, wanted, group)
    places = [header.index(name) for name in features]
    inputs, labels, clients, groups, seen = [], [], [], [], 0
    for rows in chunks:
        inputs.append(parse_numbers(rows, places, features, seen, path.name))
        labels.append(_names(rows, header, target, seen, path.name))
        if client in header:
            clients.append(_names(rows, header, client, seen, path.name))
        if group is not None:
            groups.append(_names(rows, header, group, seen, path.name))
        seen += len(rows)
    if not inputs:
        raise FedloomError(f"{path.name} has a header and no rows: add samples.")
    holders, together = (np.concatenate(names) if names else None for names in (clients, groups))
    return SampleTable(np.concatenate(inputs), np.concatenate(labels), holders, features, together)


def _names(rows: Rows, header: Sequence[str], column: str, seen: int, where: str) -> np.ndarray:
    """The cells of a column of names, none of them empty; ``seen`` rows of the file came before these."""
    place = header.index(column)
    names = [row[place].strip() for row in rows]
    for number, name in enumerate(names, start=seen + 1):
        if not name or len(name) > LONGEST_NAME:
            problem = "the cell is empty" if not name else f"{len(name)} characters are too long for a name"
            raise FedloomError(f"{where}: column '{column}', row {number}: {problem}: fill it in or leave the row out.")
    return np.array(names)


def _read_parquet(
    path: Path, target: str, client: str, ignore: Sequence[str], wanted: Sequence[str], group: str | None
) -> SampleTable:
    table = parquet_columns(path)
    features = _feature_columns(path, table.column_names, target, client, ignore, wanted, group)
    if table.num_rows == 0:
        raise FedloomError(f"{path.name} has no rows: add samples.")
    inputs = number_columns(table, features, path.name)
    for name in [name for name in table.column_names if name in (target, client, group)]:
        refuse_empty(table, name, path.name)
    clients, together = (
        table[name].to_numpy().astype(str) if name in table.column_names else None for name in (client, group)
    )
    return SampleTable(inputs, table[target].to_numpy(), clients, features, together)
